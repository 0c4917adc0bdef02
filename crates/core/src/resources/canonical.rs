//! The text of a quantity as Kubernetes writes it (spec 10 §15.2).

use super::{Notation, Quantity};

/// Suffixes by power of 1000, from a billionth up.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Suffixes by power of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const NANOS: u128 = 1_000_000_000;

impl Quantity {
    /// The shortest text in the quantity's own notation that loses nothing, e.g. `1500m`, `4Gi`.
    pub fn canonical(self) -> String {
        let magnitude = self.nanos.unsigned_abs();
        let sign = if self.nanos < 0 { "-" } else { "" };
        // Small numbers are not worth a binary suffix.
        let notation = match self.notation {
            Notation::BinarySi if magnitude < 1024 * NANOS => Notation::DecimalSi,
            notation => notation,
        };
        let text = match notation {
            Notation::BinarySi => binary(magnitude.div_ceil(NANOS)),
            Notation::DecimalSi | Notation::DecimalExponent => {
                let (number, power) = decimal(magnitude);
                if notation == Notation::DecimalSi && power < DECIMAL.len() {
                    format!("{number}{}", DECIMAL[power])
                } else {
                    exponent(number, power)
                }
            }
        };
        format!("{sign}{text}")
    }
}

/// The number without trailing groups of zeros, and the power of 1000 above a billionth.
fn decimal(mut nanos: u128) -> (u128, usize) {
    if nanos == 0 {
        return (0, 3);
    }
    let mut power = 0;
    while nanos.is_multiple_of(1000) {
        nanos /= 1000;
        power += 1;
    }
    (nanos, power)
}

fn exponent(number: u128, power: usize) -> String {
    match i32::try_from(power).unwrap_or(i32::MAX).saturating_sub(3).saturating_mul(3) {
        0 => number.to_string(),
        exponent => format!("{number}e{exponent}"),
    }
}

fn binary(mut units: u128) -> String {
    let mut power = 0;
    while units != 0 && units.is_multiple_of(1024) && power + 1 < BINARY.len() {
        units /= 1024;
        power += 1;
    }
    format!("{units}{}", BINARY[power])
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ];
        for (nanos, notation, text) in cases {
            let quantity = Quantity::from_nanos(nanos).with_notation(notation);
            assert_eq!(quantity.canonical(), text, "{nanos} nanos, {notation:?}");
        }
    }
}
