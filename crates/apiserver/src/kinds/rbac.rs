//! Roles and their bindings. They are stored; nobody is refused by them.

use super::built_in::{BASE, BuiltIn};
use super::checks;

const RULES: BuiltIn = BuiltIn { creates_on_update: true, name: checks::path_segment, ..BASE };

pub(super) static ROLE: BuiltIn = BuiltIn { model: "io.k8s.api.rbac.v1.Role", ..RULES };

pub(super) static CLUSTER_ROLE: BuiltIn =
    BuiltIn { model: "io.k8s.api.rbac.v1.ClusterRole", ..RULES };

pub(super) static ROLE_BINDING: BuiltIn = BuiltIn {
    model: "io.k8s.api.rbac.v1.RoleBinding",
    validate: checks::role_binding,
    validate_update: checks::role_binding_update,
    ..RULES
};

pub(super) static CLUSTER_ROLE_BINDING: BuiltIn = BuiltIn {
    model: "io.k8s.api.rbac.v1.ClusterRoleBinding",
    validate: checks::role_binding,
    validate_update: checks::role_binding_update,
    ..RULES
};
