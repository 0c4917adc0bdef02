//! The text of a quantity as Kubernetes writes it (spec 10 §15.2).

use karpenter_grammar::Amount;

use super::Quantity;

impl Quantity {
    /// The shortest text in the quantity's own notation that loses nothing, e.g. `1500m`, `4Gi`.
    pub fn canonical(self) -> String {
        Amount::from(self).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Notation;

    #[test]
    fn canonical_texts_equal_those_of_kubernetes() {
        use Notation::{BinarySi, DecimalExponent, DecimalSi};
        #[rustfmt::skip]
        let cases = [
            (0,                              DecimalSi,       "0"),
            (0,                              BinarySi,        "0"),
            (1_500_000_000,                  DecimalSi,       "1500m"),
            (250_000_000,                    DecimalSi,       "250m"),
            (2_000_000_000_000,              DecimalSi,       "2k"),
            (1,                              DecimalSi,       "1n"),
            (-500_000_000,                   DecimalSi,       "-500m"),
            (1_073_741_824_000_000_000,      BinarySi,        "1Gi"),
            (1_610_612_736_000_000_000,      BinarySi,        "1536Mi"),
            (512_000_000_000,                BinarySi,        "512"),
            (100_000_000,                    BinarySi,        "100m"),
            (1_025_000_000_000,              BinarySi,        "1025"),
            (1_073_741_824_000_000_000,      DecimalSi,       "1073741824"),
            (1_000_000_000_000,              DecimalExponent, "1e3"),
            (1_000_000_000,                  DecimalExponent, "1"),
            (1_536_000_000_001,              BinarySi,        "1536000000001n"), // nothing is lost
        ];
        for (nanos, notation, text) in cases {
            let quantity = Quantity::from_nanos(nanos).with_notation(notation);
            assert_eq!(quantity.canonical(), text, "{nanos} nanos, {notation:?}");
        }
    }
}
