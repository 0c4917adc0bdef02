//! Disks of the instances: the user's, or those of the family (spec 50 §3.1 and §4.3).

use karpenter_api::ec2_nodeclass::{BlockDevice, BlockDeviceMapping};
use karpenter_api::grammar::{Quantity, QuantityError};

use super::AmiFamily;

/// One GiB in billionths of a byte. EC2 takes sizes in GiB; quantities are exact to a billionth.
const GIB_NANOS: i128 = (1 << 30) * 1_000_000_000;

/// One disk, as a launch template sends it to EC2.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LaunchBlockDevice {
    /// Name of the device.
    pub device_name: Option<String>,
    /// Volume behind the device; absent sends the name alone.
    pub volume: Option<LaunchVolume>,
}

/// An EBS volume, as a launch template sends it; absent fields are not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchVolume {
    /// Whether EC2 deletes the volume with the instance.
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    pub encrypted: Option<bool>,
    /// Operations per second.
    pub iops: Option<i64>,
    /// KMS key.
    pub kms_key_id: Option<String>,
    /// Snapshot that the volume starts from.
    pub snapshot_id: Option<String>,
    /// Throughput in MiB per second.
    pub throughput: Option<i64>,
    /// Rate at which EC2 reads the snapshot, in MiB per second.
    pub volume_initialization_rate: Option<i32>,
    /// Size in GiB.
    pub size_gib: Option<i64>,
    /// Type, as in gp3.
    pub volume_type: Option<String>,
}

impl AmiFamily {
    /// Returns the disks of a class that names none; all are encrypted gp3 volumes.
    ///
    /// They are not part of the drift hash: a change makes new templates and drifts no node.
    pub fn default_block_devices(self) -> Vec<BlockDeviceMapping> {
        let sizes: &[(&str, &str)] = match self {
            Self::Al2 | Self::Al2023 => &[("/dev/xvda", "20Gi")],
            Self::Bottlerocket => &[("/dev/xvda", "6Gi"), ("/dev/xvdb", "20Gi")],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => &[("/dev/sda1", "50Gi")],
            Self::Custom => &[],
        };
        sizes.iter().map(|(device, size)| default_mapping(device, size)).collect()
    }
}

/// Returns the disks for a launch template: those of the class, or of its family.
pub fn launch_block_devices(
    mappings: Option<&[BlockDeviceMapping]>,
    family: AmiFamily,
) -> Result<Vec<LaunchBlockDevice>, QuantityError> {
    match mappings {
        Some(mappings) if !mappings.is_empty() => mappings.iter().map(launch_device).collect(),
        _ => family.default_block_devices().iter().map(launch_device).collect(),
    }
}

fn default_mapping(device: &str, size: &str) -> BlockDeviceMapping {
    BlockDeviceMapping {
        device_name: Some(device.to_owned()),
        ebs: Some(BlockDevice {
            encrypted: Some(true),
            volume_type: Some("gp3".to_owned()),
            volume_size: Some(Quantity::parse(size)),
            ..BlockDevice::default()
        }),
        root_volume: None,
    }
}

fn launch_device(mapping: &BlockDeviceMapping) -> Result<LaunchBlockDevice, QuantityError> {
    Ok(LaunchBlockDevice {
        device_name: mapping.device_name.clone(),
        volume: mapping.ebs.as_ref().map(launch_volume).transpose()?,
    })
}

fn launch_volume(ebs: &BlockDevice) -> Result<LaunchVolume, QuantityError> {
    Ok(LaunchVolume {
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: ebs.iops.filter(|&iops| iops != 0),
        kms_key_id: ebs.kms_key_id.clone(),
        snapshot_id: ebs.snapshot_id.clone(),
        throughput: ebs.throughput.filter(|&throughput| throughput != 0),
        volume_initialization_rate: ebs.volume_initialization_rate,
        size_gib: ebs.volume_size.as_ref().map(size_gib).transpose()?,
        volume_type: ebs.volume_type.clone(),
    })
}

/// Returns the size in whole GiB, rounded up.
fn size_gib(size: &Quantity) -> Result<i64, QuantityError> {
    let nanos = size.value()?.as_nanos().max(0);
    let gib = nanos / GIB_NANOS + i128::from(nanos % GIB_NANOS != 0);
    Ok(i64::try_from(gib).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(family: AmiFamily) -> Vec<(String, i64)> {
        let devices = launch_block_devices(None, family).unwrap();
        devices
            .into_iter()
            .map(|device| {
                let volume = device.volume.unwrap();
                assert_eq!(volume.encrypted, Some(true), "{family:?}");
                assert_eq!(volume.volume_type.as_deref(), Some("gp3"), "{family:?}");
                (device.device_name.unwrap(), volume.size_gib.unwrap())
            })
            .collect()
    }

    #[test]
    fn families_have_encrypted_gp3_disks() {
        let disks = |of: &[(&str, i64)]| -> Vec<_> {
            of.iter().map(|(device, size)| ((*device).to_owned(), *size)).collect()
        };
        let bottlerocket = disks(&[("/dev/xvda", 6), ("/dev/xvdb", 20)]);
        assert_eq!(sizes(AmiFamily::Bottlerocket), bottlerocket, "55/UP-N6");
        assert_eq!(sizes(AmiFamily::Al2), disks(&[("/dev/xvda", 20)]));
        assert_eq!(sizes(AmiFamily::Al2023), disks(&[("/dev/xvda", 20)]));
        assert_eq!(sizes(AmiFamily::Windows2022), disks(&[("/dev/sda1", 50)]));
        assert_eq!(sizes(AmiFamily::Custom), disks(&[]), "50/L14");
    }

    #[test]
    fn ephemeral_storage_is_on_a_default_disk() {
        for family in AmiFamily::ALL {
            let Some(device) = family.ephemeral_device() else { continue };
            let on_device =
                |mapping: &BlockDeviceMapping| mapping.device_name.as_deref() == Some(device);
            let disk = family.default_block_devices().into_iter().find(on_device);
            let size = disk.unwrap().ebs.unwrap().volume_size.unwrap();
            let want = if family.is_windows() { "50Gi" } else { "20Gi" };
            assert_eq!(size.as_str(), want, "55/UP-N6: {family:?}");
        }
    }

    #[test]
    fn sizes_are_rounded_up_to_gib() {
        #[rustfmt::skip]
        let cases = [("20G", 19), ("125G", 117), ("1Gi", 1), ("1G", 1), ("59000Gi", 59000), ("1Ti", 1024), ("64T", 59605)];
        for (text, want) in cases {
            assert_eq!(size_gib(&Quantity::parse(text)), Ok(want), "50/L13: {text}");
        }
        assert!(size_gib(&Quantity::parse("large")).is_err());
    }

    #[test]
    fn the_disks_of_the_class_replace_those_of_the_family() {
        let mapping = BlockDeviceMapping {
            device_name: Some("/dev/xvdz".to_owned()),
            ebs: Some(BlockDevice {
                iops: Some(0),
                throughput: Some(0),
                snapshot_id: Some("snap-1".to_owned()),
                ..BlockDevice::default()
            }),
            root_volume: None,
        };
        let bare = BlockDeviceMapping { ebs: None, ..mapping.clone() };
        let devices = launch_block_devices(Some(&[mapping, bare]), AmiFamily::Al2023).unwrap();
        let volume =
            LaunchVolume { snapshot_id: Some("snap-1".to_owned()), ..LaunchVolume::default() };
        let named =
            |volume| LaunchBlockDevice { device_name: Some("/dev/xvdz".to_owned()), volume };
        assert_eq!(devices, [named(Some(volume)), named(None)], "no volume: only the device name");
    }
}
