//! Tests of clients that misbehave: each gets a `Status`, and other clients are not affected.

mod robust {
    mod bad_input;
    mod client;
    mod fuzz;
    mod impersonation;
    mod protobuf;
    mod reviews_and_connect;
    mod watchers;
}
