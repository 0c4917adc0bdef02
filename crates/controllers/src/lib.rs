//! The provider-neutral controllers: observe, decide, act.
//!
//! Each controller takes facts, calls one pure function of `karpenter-core` and carries out what it
//! returned; facts come back only by watch. The list `all()` will be the table of contents of the
//! product.
