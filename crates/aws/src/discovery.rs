//! Facts about EC2 as plain data, and the ports that read them (spec 51 §1, §8, §15.2).
//!
//! Everything here is a value. [`Ec2Types`] and [`Prices`] are the only ways to EC2; production
//! implements them with the AWS SDK, offline commands with the compact tables, and tests with
//! [`memory`].
//!
//! | Type | Content |
//! |---|---|
//! | [`InstanceTypeInfo`] | the properties of an instance type that resolution uses |
//! | [`OfferedZones`] | the zones in which EC2 sells each instance type |
//! | [`Zone`] | the name and the id of a zone |
//! | [`TypeFigures`] | figures that no EC2 API returns: branch interfaces and bandwidth |
//! | [`PriceTable`] | on-demand prices by instance type |
//! | [`SpotPrice`] | one entry of the spot price history |

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub mod memory;
mod read;
mod requests;

pub use read::{read_instance_types, read_offered_zones};
pub use requests::{
    DescribeInstanceTypeOfferings, DescribeInstanceTypes, DescribeSpotPriceHistory, Filter,
    GetProducts, Page,
};

/// The result of a call to AWS.
pub type CallResult<T> = Result<T, CallError>;

/// A future that borrows the port and the request.
pub type CallFuture<'a, T> = BoxFuture<'a, CallResult<T>>;

/// Reads instance types and the zones that sell them.
pub trait Ec2Types: std::fmt::Debug + Send + Sync {
    /// Returns one page of `ec2:DescribeInstanceTypes`.
    fn describe_instance_types<'a>(
        &'a self,
        request: &'a DescribeInstanceTypes,
    ) -> CallFuture<'a, Page<InstanceTypeInfo>>;

    /// Returns one page of `ec2:DescribeInstanceTypeOfferings`.
    fn describe_instance_type_offerings<'a>(
        &'a self,
        request: &'a DescribeInstanceTypeOfferings,
    ) -> CallFuture<'a, Page<TypeOffering>>;
}

/// Reads on-demand and spot prices.
pub trait Prices: std::fmt::Debug + Send + Sync {
    /// Returns one page of `pricing:GetProducts`: each product as its JSON text.
    fn get_products<'a>(&'a self, request: &'a GetProducts) -> CallFuture<'a, Page<String>>;

    /// Returns one page of `ec2:DescribeSpotPriceHistory`.
    fn describe_spot_price_history<'a>(
        &'a self,
        request: &'a DescribeSpotPriceHistory,
    ) -> CallFuture<'a, Page<SpotPrice>>;
}

/// Why a call to AWS failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {code}: {message}")]
pub struct CallError {
    /// The API operation, such as `DescribeInstanceTypes`.
    pub operation: &'static str,
    /// The error code of the service, such as `RequestLimitExceeded`.
    pub code: String,
    /// The message of the service.
    pub message: String,
}

/// The properties of an EC2 instance type that resolution uses (spec 51 §1).
///
/// Texts are EC2's own and may have values that did not exist when this was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceTypeInfo {
    /// The name, such as `m5.large`.
    pub name: String,
    /// `on-demand`, `spot`, `capacity-block`.
    pub usage_classes: Vec<String>,
    /// `nitro` or `xen`; absent for bare metal.
    pub hypervisor: Option<String>,
    /// The processor; absent only if EC2 reports none.
    pub processor: Option<Processor>,
    /// DefaultVCpus.
    pub vcpus: u32,
    /// SizeInMiB.
    pub memory_mib: u64,
    /// The disks that come with the instance.
    pub instance_storage: Option<InstanceStorage>,
    /// The dedicated bandwidth to EBS.
    pub ebs: Option<Ebs>,
    /// The network; without it the instance type cannot be resolved.
    pub network: Option<Network>,
    /// One entry for each GPU model.
    pub gpus: Vec<Gpu>,
    /// One entry for each accelerator model; a fallback for types without Neuron devices.
    pub inference_accelerators: Vec<InferenceAccelerator>,
    /// One entry for each Neuron device model; absent if EC2 reports no NeuronInfo.
    pub neuron_devices: Option<Vec<NeuronDevice>>,
    /// `supported` or `unsupported`.
    pub nitro_enclaves: Option<String>,
    /// `cluster`, `partition`, `spread`; absent if EC2 reports no PlacementGroupInfo.
    pub placement_strategies: Option<Vec<String>>,
}

/// ProcessorInfo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processor {
    /// `x86_64`, `arm64`, `i386`, `arm64_mac`, in EC2's order.
    pub architectures: Vec<String>,
    /// `Intel`, `AMD`, `AWS`.
    pub manufacturer: Option<String>,
    /// SustainedClockSpeedInGhz.
    pub clock_ghz: Option<f64>,
    /// Features such as `nested-virtualization`.
    pub features: Vec<String>,
}

/// InstanceStorageInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceStorage {
    /// `unsupported`, `supported` or `required`.
    pub nvme_support: Option<String>,
    /// TotalSizeInGB.
    pub total_gb: Option<u64>,
}

/// EbsInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ebs {
    /// `unsupported`, `supported` or `default`.
    pub optimized_support: Option<String>,
    /// EbsOptimizedInfo.MaximumBandwidthInMbps.
    pub maximum_bandwidth_mbps: Option<u32>,
}

/// NetworkInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// The network cards, in EC2's order; absent if EC2 reports none.
    pub cards: Option<Vec<NetworkCard>>,
    /// DefaultNetworkCardIndex.
    pub default_card: u32,
    /// Ipv4AddressesPerInterface.
    pub ipv4_per_interface: u32,
    /// EncryptionInTransitSupported.
    pub encryption_in_transit: bool,
    /// EfaInfo.MaximumEfaInterfaces; absent if there is no EFA.
    pub maximum_efa_interfaces: Option<u32>,
    /// `unsupported`, `supported` or `required`.
    pub ena_support: Option<String>,
}

/// A network card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkCard {
    /// NetworkCardIndex.
    pub index: u32,
    /// MaximumNetworkInterfaces.
    pub maximum_interfaces: u32,
}

/// A GPU model with the number of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpu {
    /// Such as `T4`.
    pub name: String,
    /// Such as `NVIDIA`.
    pub manufacturer: String,
    /// The number of GPUs; EC2 counts a part of a GPU as 0.
    pub count: u32,
    /// The memory of one GPU.
    pub memory_mib: Option<u64>,
}

/// An inference accelerator model with the number of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InferenceAccelerator {
    /// Such as `Inferentia`.
    pub name: String,
    /// Such as `AWS`.
    pub manufacturer: String,
    /// The number of accelerators.
    pub count: u32,
}

/// A Neuron device model with the number of its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NeuronDevice {
    /// Such as `Trainium`.
    pub name: String,
    /// The number of devices.
    pub count: u32,
    /// The cores of one device.
    pub cores: u32,
}

/// An instance type that a zone sells: one entry of DescribeInstanceTypeOfferings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TypeOffering {
    /// The instance type.
    pub instance_type: String,
    /// The name of the zone.
    pub zone: String,
}

/// The zones that sell each instance type, by instance type.
pub type OfferedZones = BTreeMap<String, BTreeSet<String>>;

/// A zone of a region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Zone {
    /// The name, such as `us-west-2a`; another place in each account.
    pub name: String,
    /// The id, such as `usw2-az1`; the same place in every account.
    pub id: String,
}

/// Figures of an instance type that no EC2 API returns (spec 51 §13).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TypeFigures {
    /// The limits of the VPC resource controller; absent for unknown instance types.
    pub vpc: Option<VpcLimits>,
    /// Baseline network bandwidth in megabits per second; absent where AWS states no number.
    pub network_bandwidth_mbps: Option<u64>,
}

/// The limits of the VPC resource controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VpcLimits {
    /// IPv4 addresses of an interface.
    pub ipv4_per_interface: u32,
    /// Whether the instance type can have branch interfaces.
    pub is_trunking_compatible: bool,
    /// The number of branch interfaces.
    pub branch_interfaces: u32,
}

/// The currency of a price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Currency {
    /// US dollars.
    #[default]
    #[serde(rename = "USD")]
    Usd,
    /// Renminbi, in the regions `cn-*`.
    #[serde(rename = "CNY")]
    Cny,
}

impl Currency {
    /// Returns the currency in which AWS bills a region.
    pub fn of_region(region: &str) -> Self {
        if region.starts_with("cn-") { Self::Cny } else { Self::Usd }
    }

    /// Returns the ISO 4217 code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Usd => "USD",
            Self::Cny => "CNY",
        }
    }
}

/// On-demand prices for an hour, by instance type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PriceTable {
    /// The region whose prices these are.
    pub region: String,
    /// The currency of the prices.
    pub currency: Currency,
    /// The prices.
    pub prices: BTreeMap<String, f64>,
}

/// One entry of the spot price history, as EC2 reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpotPrice {
    /// The instance type.
    pub instance_type: String,
    /// The name of the zone.
    pub zone: String,
    /// The price for an hour as text.
    pub price: String,
    /// When EC2 set the price, in seconds since 1970; absent entries are skipped.
    pub timestamp: Option<i64>,
}
