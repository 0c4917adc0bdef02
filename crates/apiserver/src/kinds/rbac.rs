//! Roles and their bindings. The API server stores them and does not enforce them.

use super::built_in_kind::{BASE_KIND, BuiltInKind};
use super::validation;

const RULES: BuiltInKind = BuiltInKind {
    allows_create_on_update: true,
    validate_name: validation::path_segment,
    ..BASE_KIND
};

pub(super) static ROLE: BuiltInKind = BuiltInKind { type_name: "io.k8s.api.rbac.v1.Role", ..RULES };

pub(super) static CLUSTER_ROLE: BuiltInKind =
    BuiltInKind { type_name: "io.k8s.api.rbac.v1.ClusterRole", ..RULES };

pub(super) static ROLE_BINDING: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.rbac.v1.RoleBinding",
    validate: validation::validate_role_binding,
    validate_update: validation::validate_role_binding_update,
    ..RULES
};

pub(super) static CLUSTER_ROLE_BINDING: BuiltInKind = BuiltInKind {
    type_name: "io.k8s.api.rbac.v1.ClusterRoleBinding",
    validate: validation::validate_role_binding,
    validate_update: validation::validate_role_binding_update,
    ..RULES
};
