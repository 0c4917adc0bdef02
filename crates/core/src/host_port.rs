//! Ports that pods take on their node (spec 20 §1.10).

use std::net::IpAddr;

/// One port of a node. An absent host IP is stored as `0.0.0.0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The address, as text.
    pub ip: String,
    /// The port; never 0.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`, as stored.
    pub protocol: String,
}

impl HostPort {
    /// Returns whether two pods with these host ports cannot share a node.
    pub fn conflicts_with(&self, other: &Self) -> bool {
        if self.port != other.port || self.protocol != other.protocol {
            return false;
        }
        if self.ip == other.ip {
            return true;
        }
        let (own, others) = (self.address(), other.address());
        let is_any = |address: Option<IpAddr>| address.is_some_and(|a| a.is_unspecified());
        own == others || is_any(own) || is_any(others)
    }

    /// The address, since IPv6 can be written in many ways. All texts that are none are the same.
    fn address(&self) -> Option<IpAddr> {
        self.ip.parse().ok().map(|address: IpAddr| address.to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ports_conflict_on_the_same_or_any_address() {
        let port = |ip: &str, port, protocol: &str| HostPort {
            ip: ip.to_owned(),
            port,
            protocol: protocol.to_owned(),
        };
        let tcp = |ip| port(ip, 80, "TCP");
        #[rustfmt::skip]
        let cases = [
            ("20/A32",         tcp("10.0.0.1"), tcp("0.0.0.0"),               true),
            ("20/A32",         tcp("10.0.0.1"), port("0.0.0.0", 80, "UDP"),   false),
            ("same",           tcp("10.0.0.1"), tcp("10.0.0.1"),              true),
            ("other address",  tcp("10.0.0.1"), tcp("10.0.0.2"),              false),
            ("other port",     tcp("0.0.0.0"),  port("0.0.0.0", 81, "TCP"),   false),
            ("any IPv6",       tcp("10.0.0.1"), tcp("::"),                    true),
            ("any, long",      tcp("10.0.0.1"), tcp("0:0:0:0:0:0:0:0"),       true),
            ("IPv6 spellings", tcp("fd00::1"),  tcp("FD00:0::1"),             true),
            ("IPv4 in IPv6",   tcp("10.0.0.1"), tcp("::ffff:10.0.0.1"),       true),
        ];
        for (case, a, b, expected) in cases {
            assert_eq!(a.conflicts_with(&b), expected, "{case}: {a:?}, {b:?}");
            assert_eq!(b.conflicts_with(&a), expected, "{case}: {b:?}, {a:?}");
        }
    }
}
