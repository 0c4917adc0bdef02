//! Clients that err, lie, flood and fall silent: each gets a `Status`, and nobody else notices.

mod robust {
    mod bad_input;
    mod client;
    mod fuzz;
    mod protobuf;
    mod reviews_and_connect;
    mod watchers;
}
