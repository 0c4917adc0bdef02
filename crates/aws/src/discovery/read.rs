//! Reads all instance types and offered zones of a region (spec 51 §1).

use super::{
    CallResult, DescribeInstanceTypeOfferings, DescribeInstanceTypes, Ec2Types, Filter,
    InstanceTypeInfo, OfferedZones,
};

/// Returns every instance type that nodes can run on, from all pages.
pub async fn read_instance_types(ec2: &dyn Ec2Types) -> CallResult<Vec<InstanceTypeInfo>> {
    let mut request = DescribeInstanceTypes {
        filters: vec![
            Filter::new("supported-virtualization-type", ["hvm"]),
            Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
        ],
        max_results: 100,
        next_token: None,
    };
    let mut all = Vec::new();
    loop {
        let page = ec2.describe_instance_types(&request).await?;
        all.extend(page.items);
        if page.next_token.is_none() || page.next_token == request.next_token {
            return Ok(all);
        }
        request.next_token = page.next_token;
    }
}

/// Returns the zones that sell each instance type, from all pages.
pub async fn read_offered_zones(ec2: &dyn Ec2Types) -> CallResult<OfferedZones> {
    let mut request = DescribeInstanceTypeOfferings {
        location_type: "availability-zone".to_owned(),
        max_results: 1000,
        next_token: None,
    };
    let mut zones = OfferedZones::new();
    loop {
        let page = ec2.describe_instance_type_offerings(&request).await?;
        for offering in page.items {
            zones.entry(offering.instance_type).or_default().insert(offering.zone);
        }
        if page.next_token.is_none() || page.next_token == request.next_token {
            return Ok(zones);
        }
        request.next_token = page.next_token;
    }
}
