//! The AWS provider: instance types, prices, launch, drift and interruption on EC2.
//!
//! Implements the `CloudProvider` port of `karpenter-operator` over narrow ports of its own
//! (`Ec2`, `Ssm`, `Iam`, `Eks`, `Sqs`, `Pricing`). Only the module behind the feature `sdk` names
//! a type of the AWS SDK, so everything else builds and tests without it.

pub mod ami_family;
pub mod bootstrap;
pub mod discovery;
mod expiring;
pub mod instance_types;
pub mod offerings;
pub mod offline;
pub mod options;
pub mod prices;
pub mod reservations;
pub mod tables;
pub mod unavailable;
