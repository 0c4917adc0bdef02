//! Reading an object whose `spec` is absent.

/// Makes an absent `spec` read as the default one.
///
/// The schemas of the node classes do not require `spec`, so such objects exist, and one of them
/// must not make a whole list unreadable. The type derives serde with `remote = "Self"`, which
/// gives it inherent functions that the implementations here wrap.
macro_rules! absent_is_default {
    ($Spec:ident) => {
        impl ::serde::Serialize for $Spec {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $Spec::serialize(self, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $Spec {
            fn deserialize<D: ::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Self, D::Error> {
                struct Present($Spec);
                impl<'de> ::serde::Deserialize<'de> for Present {
                    fn deserialize<D: ::serde::Deserializer<'de>>(
                        deserializer: D,
                    ) -> Result<Self, D::Error> {
                        $Spec::deserialize(deserializer).map(Present)
                    }
                }
                Ok(Option::<Present>::deserialize(deserializer)?
                    .map_or_else(Self::default, |p| p.0))
            }
        }
    };
}

pub(crate) use absent_is_default;
