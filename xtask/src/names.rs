//! `cargo xtask names`: every name that is visible outside its own module, with its path.
//!
//! The list serves the question of `docs/concepts/glossary.md`: can a reader of the path and the
//! name alone understand the item? Fields, variants and methods are names, too; tests and private
//! items are not in the list.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use syn::{Attribute, Expr, Field, ImplItem, Item, Lit, Meta, TraitItem, Type, Visibility};

use crate::host;
use crate::source::{self, SourceFile};

#[cfg(test)]
mod tests;

/// A name that other modules can use.
#[derive(Debug, PartialEq, Eq)]
struct Name {
    /// The path of modules and types, with the name at the end.
    path: String,
    kind: &'static str,
    /// The first line of its doc comment.
    summary: String,
}

/// Prints the names of one crate, or of all crates.
pub(crate) fn print(package: Option<&str>) -> Result<()> {
    let (mut known, mut found) = (BTreeSet::new(), false);
    for file in source::rust_files()? {
        let Some(module) = Module::of_path(&file.path) else { continue };
        let is_selected = package.is_none_or(|package| package == module.package);
        known.insert(module.package.clone());
        if is_selected {
            found = true;
            for Name { path, kind, summary } in names(&file, &module)? {
                host::print(format!("{path:<72} {kind:<8} {summary}").trim_end());
            }
        }
    }
    if !found {
        let known: Vec<_> = known.into_iter().collect();
        bail!("no crate `{}`; use one of {}", package.unwrap_or_default(), known.join(", "));
    }
    Ok(())
}

/// Where the items of a file are.
struct Module {
    /// The folder of the crate, such as `core`.
    package: String,
    path: String,
}

impl Module {
    /// Returns the module that the file at `path` holds; `None` for tests and build scripts.
    fn of_path(path: &str) -> Option<Self> {
        let (folder, inside) = path.split_once("/src/")?;
        let package = folder.rsplit('/').next()?.to_owned();
        let inside = inside.strip_suffix(".rs")?;
        let mut parts: Vec<_> = inside.split('/').collect();
        if parts.contains(&"tests") {
            return None;
        }
        if matches!(parts.last(), Some(&("lib" | "main"))) {
            parts.pop();
        }
        let path = [&[package.as_str()], &parts[..]].concat().join("::");
        Some(Self { package, path })
    }
}

/// Returns the names that the file defines for other modules, in their order.
fn names(file: &SourceFile, module: &Module) -> Result<Vec<Name>> {
    let parsed = syn::parse_file(&file.text).with_context(|| format!("parsing {}", file.path))?;
    let mut names = Vec::new();
    let summary = summary(&parsed.attrs);
    names.push(Name { path: module.path.clone(), kind: "module", summary });
    add_items(&parsed.items, &module.path, &mut names);
    Ok(names)
}

fn add_items(items: &[Item], path: &str, names: &mut Vec<Name>) {
    for item in items {
        let (kind, visibility, identifier, attributes) = match item {
            Item::Const(item) => ("const", &item.vis, &item.ident, &item.attrs),
            Item::Enum(item) => ("enum", &item.vis, &item.ident, &item.attrs),
            Item::Fn(item) => ("fn", &item.vis, &item.sig.ident, &item.attrs),
            Item::Static(item) => ("static", &item.vis, &item.ident, &item.attrs),
            Item::Struct(item) => ("struct", &item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => ("trait", &item.vis, &item.ident, &item.attrs),
            Item::Type(item) => ("type", &item.vis, &item.ident, &item.attrs),
            Item::Mod(item) => {
                if let Some((_, items)) = &item.content
                    && !is_test(&item.attrs)
                {
                    add_items(items, &format!("{path}::{}", item.ident), names);
                }
                continue;
            }
            Item::Impl(item) => {
                if item.trait_.is_none() {
                    add_methods(&item.items, &type_path(path, &item.self_ty), names);
                }
                continue;
            }
            _ => continue,
        };
        if !is_visible(visibility) || is_test(attributes) {
            continue;
        }
        let path = format!("{path}::{identifier}");
        names.push(Name { path: path.clone(), kind, summary: summary(attributes) });
        match item {
            Item::Enum(item) => names.extend(item.variants.iter().map(|variant| Name {
                path: format!("{path}::{}", variant.ident),
                kind: "variant",
                summary: summary(&variant.attrs),
            })),
            Item::Struct(item) => add_fields(item.fields.iter(), &path, names),
            Item::Trait(item) => names.extend(item.items.iter().filter_map(|item| {
                let TraitItem::Fn(method) = item else { return None };
                let path = format!("{path}::{}", method.sig.ident);
                Some(Name { path, kind: "fn", summary: summary(&method.attrs) })
            })),
            _ => {}
        }
    }
}

fn add_fields<'a>(fields: impl Iterator<Item = &'a Field>, path: &str, names: &mut Vec<Name>) {
    for field in fields.filter(|field| is_visible(&field.vis)) {
        if let Some(identifier) = &field.ident {
            let path = format!("{path}::{identifier}");
            names.push(Name { path, kind: "field", summary: summary(&field.attrs) });
        }
    }
}

fn add_methods(items: &[ImplItem], path: &str, names: &mut Vec<Name>) {
    for item in items {
        let (kind, visibility, identifier, attributes) = match item {
            ImplItem::Const(item) => ("const", &item.vis, &item.ident, &item.attrs),
            ImplItem::Fn(item) => ("fn", &item.vis, &item.sig.ident, &item.attrs),
            _ => continue,
        };
        if is_visible(visibility) && !is_test(attributes) {
            let path = format!("{path}::{identifier}");
            names.push(Name { path, kind, summary: summary(attributes) });
        }
    }
}

fn type_path(module: &str, implementing: &Type) -> String {
    match implementing {
        Type::Path(path) => {
            let name = path.path.segments.last().map(|segment| segment.ident.to_string());
            format!("{module}::{}", name.unwrap_or_default())
        }
        _ => module.to_owned(),
    }
}

fn is_visible(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

/// Returns whether the item is compiled for tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    })
}

/// Returns the first line of the doc comment.
fn summary(attributes: &[Attribute]) -> String {
    let line = attributes.iter().find_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else { return None };
        let Expr::Lit(literal) = &meta.value else { return None };
        let Lit::Str(text) = &literal.lit else { return None };
        meta.path.is_ident("doc").then(|| text.value().trim().to_owned())
    });
    line.unwrap_or_default()
}
