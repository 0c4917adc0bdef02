//! The type model of KubeletConfiguration in Kubernetes 1.36: every key with its type (spec 10
//! §6.6).
//!
//! The names of Go types are there because the decoder's messages name them, and users search for
//! those messages.

/// The type of a value in a KubeletConfiguration.
#[derive(Debug)]
pub(super) enum ValueType {
    /// A string; the Go type has a name of its own where only some values make sense.
    Text(&'static str),
    Bool,
    Integer {
        go: &'static str,
        min: i64,
        max: i64,
    },
    Float,
    Duration {
        /// Whether `null` stands for "absent"; elsewhere it is an empty duration, which is none.
        optional: bool,
    },
    /// A duration, or a number of nanoseconds.
    DurationOrNanos,
    Quantity,
    Time,
    List(&'static str, &'static ValueType),
    Map(&'static str, &'static ValueType),
    Struct(&'static StructType),
}

/// A Go struct: an object with known keys.
#[derive(Debug)]
pub(super) struct StructType {
    pub(super) go: &'static str,
    pub(super) fields: &'static [StructField],
}

/// One key of an object, with its type.
#[derive(Debug)]
pub(super) struct StructField {
    pub(super) name: &'static str,
    pub(super) value_type: ValueType,
    /// The Go struct that the field comes from, where it is embedded in another.
    pub(super) embedded_in: Option<&'static str>,
}

const fn field(name: &'static str, value_type: ValueType) -> StructField {
    StructField { name, value_type, embedded_in: None }
}

const fn embedded_field(
    parent: &'static str,
    name: &'static str,
    value_type: ValueType,
) -> StructField {
    StructField { name, value_type, embedded_in: Some(parent) }
}

const TEXT: ValueType = ValueType::Text("string");
const TEXTS: ValueType = ValueType::List("[]string", &TEXT);
const TEXT_MAP: ValueType = ValueType::Map("map[string]string", &TEXT);
const INT32: ValueType =
    ValueType::Integer { go: "int32", min: i32::MIN as i64, max: i32::MAX as i64 };
const INT64: ValueType = ValueType::Integer { go: "int64", min: i64::MIN, max: i64::MAX };
const VERBOSITY: ValueType =
    ValueType::Integer { go: "v1.VerbosityLevel", min: 0, max: u32::MAX as i64 };
const DURATION: ValueType = ValueType::Duration { optional: false };
const OPTIONAL_DURATION: ValueType = ValueType::Duration { optional: true };

/// The whole of `spec.kubelet`.
pub(super) const KUBELET_CONFIGURATION: StructType = StructType {
    go: "v1beta1.KubeletConfiguration",
    fields: &[
        embedded_field("TypeMeta", "kind", TEXT),
        embedded_field("TypeMeta", "apiVersion", TEXT),
        field("enableServer", ValueType::Bool),
        field("staticPodPath", TEXT),
        field("podLogsDir", TEXT),
        field("syncFrequency", DURATION),
        field("fileCheckFrequency", DURATION),
        field("httpCheckFrequency", DURATION),
        field("staticPodURL", TEXT),
        field("staticPodURLHeader", ValueType::Map("map[string][]string", &TEXTS)),
        field("address", TEXT),
        field("port", INT32),
        field("readOnlyPort", INT32),
        field("tlsCertFile", TEXT),
        field("tlsPrivateKeyFile", TEXT),
        field("tlsCipherSuites", TEXTS),
        field("tlsCurvePreferences", ValueType::List("[]int32", &INT32)),
        field("tlsMinVersion", TEXT),
        field("rotateCertificates", ValueType::Bool),
        field("serverTLSBootstrap", ValueType::Bool),
        field("authentication", ValueType::Struct(&KUBELET_AUTHENTICATION)),
        field("authorization", ValueType::Struct(&KUBELET_AUTHORIZATION)),
        field("registryPullQPS", INT32),
        field("registryBurst", INT32),
        field(
            "imagePullCredentialsVerificationPolicy",
            ValueType::Text("v1beta1.ImagePullCredentialsVerificationPolicy"),
        ),
        field("preloadedImagesVerificationAllowlist", TEXTS),
        field("eventRecordQPS", INT32),
        field("eventBurst", INT32),
        field("enableDebuggingHandlers", ValueType::Bool),
        field("enableContentionProfiling", ValueType::Bool),
        field("healthzPort", INT32),
        field("healthzBindAddress", TEXT),
        field("oomScoreAdj", INT32),
        field("clusterDomain", TEXT),
        field("clusterDNS", TEXTS),
        field("streamingConnectionIdleTimeout", DURATION),
        field("nodeStatusUpdateFrequency", DURATION),
        field("nodeStatusReportFrequency", DURATION),
        field("nodeLeaseDurationSeconds", INT32),
        field("imageMinimumGCAge", DURATION),
        field("imageMaximumGCAge", DURATION),
        field("imageGCHighThresholdPercent", INT32),
        field("imageGCLowThresholdPercent", INT32),
        field("volumeStatsAggPeriod", DURATION),
        field("kubeletCgroups", TEXT),
        field("systemCgroups", TEXT),
        field("cgroupRoot", TEXT),
        field("cgroupsPerQOS", ValueType::Bool),
        field("cgroupDriver", TEXT),
        field("cpuManagerPolicy", TEXT),
        field("singleProcessOOMKill", ValueType::Bool),
        field("cpuManagerPolicyOptions", TEXT_MAP),
        field("cpuManagerReconcilePeriod", DURATION),
        field("memoryManagerPolicy", TEXT),
        field("topologyManagerPolicy", TEXT),
        field("topologyManagerScope", TEXT),
        field("topologyManagerPolicyOptions", TEXT_MAP),
        field("qosReserved", TEXT_MAP),
        field("runtimeRequestTimeout", DURATION),
        field("hairpinMode", TEXT),
        field("maxPods", INT32),
        field("podCIDR", TEXT),
        field("podPidsLimit", INT64),
        field("resolvConf", TEXT),
        field("runOnce", ValueType::Bool),
        field("cpuCFSQuota", ValueType::Bool),
        field("cpuCFSQuotaPeriod", OPTIONAL_DURATION),
        field("nodeStatusMaxImages", INT32),
        field("maxOpenFiles", INT64),
        field("contentType", TEXT),
        field("kubeAPIQPS", INT32),
        field("kubeAPIBurst", INT32),
        field("serializeImagePulls", ValueType::Bool),
        field("maxParallelImagePulls", INT32),
        field("evictionHard", TEXT_MAP),
        field("evictionSoft", TEXT_MAP),
        field("evictionSoftGracePeriod", TEXT_MAP),
        field("evictionPressureTransitionPeriod", DURATION),
        field("evictionMaxPodGracePeriod", INT32),
        field("evictionMinimumReclaim", TEXT_MAP),
        field("mergeDefaultEvictionSettings", ValueType::Bool),
        field("podsPerCore", INT32),
        field("enableControllerAttachDetach", ValueType::Bool),
        field("protectKernelDefaults", ValueType::Bool),
        field("makeIPTablesUtilChains", ValueType::Bool),
        field("iptablesMasqueradeBit", INT32),
        field("iptablesDropBit", INT32),
        field("featureGates", ValueType::Map("map[string]bool", &ValueType::Bool)),
        field("failSwapOn", ValueType::Bool),
        field("memorySwap", ValueType::Struct(&MEMORY_SWAP_CONFIGURATION)),
        field("containerLogMaxSize", TEXT),
        field("containerLogMaxFiles", INT32),
        field("containerLogMaxWorkers", INT32),
        field("containerLogMonitorInterval", OPTIONAL_DURATION),
        field(
            "configMapAndSecretChangeDetectionStrategy",
            ValueType::Text("v1beta1.ResourceChangeDetectionStrategy"),
        ),
        field("systemReserved", TEXT_MAP),
        field("kubeReserved", TEXT_MAP),
        field("reservedSystemCPUs", TEXT),
        field("showHiddenMetricsForVersion", TEXT),
        field("systemReservedCgroup", TEXT),
        field("kubeReservedCgroup", TEXT),
        field("enforceNodeAllocatable", TEXTS),
        field("allowedUnsafeSysctls", TEXTS),
        field("volumePluginDir", TEXT),
        field("providerID", TEXT),
        field("kernelMemcgNotification", ValueType::Bool),
        field("logging", ValueType::Struct(&LOGGING_CONFIGURATION)),
        field("enableSystemLogHandler", ValueType::Bool),
        field("enableSystemLogQuery", ValueType::Bool),
        field("shutdownGracePeriod", DURATION),
        field("shutdownGracePeriodCriticalPods", DURATION),
        field(
            "shutdownGracePeriodByPodPriority",
            ValueType::List(
                "[]v1beta1.ShutdownGracePeriodByPodPriority",
                &ValueType::Struct(&SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY),
            ),
        ),
        field("crashLoopBackOff", ValueType::Struct(&CRASH_LOOP_BACK_OFF_CONFIG)),
        field(
            "reservedMemory",
            ValueType::List("[]v1beta1.MemoryReservation", &ValueType::Struct(&MEMORY_RESERVATION)),
        ),
        field("enableProfilingHandler", ValueType::Bool),
        field("enableDebugFlagsHandler", ValueType::Bool),
        field("seccompDefault", ValueType::Bool),
        field("memoryThrottlingFactor", ValueType::Float),
        field("memoryReservationPolicy", ValueType::Text("v1beta1.MemoryReservationPolicy")),
        field("registerWithTaints", ValueType::List("[]v1.Taint", &ValueType::Struct(&TAINT))),
        field("registerNode", ValueType::Bool),
        field("tracing", ValueType::Struct(&TRACING_CONFIGURATION)),
        field("localStorageCapacityIsolation", ValueType::Bool),
        field("containerRuntimeEndpoint", TEXT),
        field("imageServiceEndpoint", TEXT),
        field("failCgroupV1", ValueType::Bool),
        field("userNamespaces", ValueType::Struct(&USER_NAMESPACES)),
    ],
};

const KUBELET_AUTHENTICATION: StructType = StructType {
    go: "v1beta1.KubeletAuthentication",
    fields: &[
        field("x509", ValueType::Struct(&KUBELET_X509_AUTHENTICATION)),
        field("webhook", ValueType::Struct(&KUBELET_WEBHOOK_AUTHENTICATION)),
        field("anonymous", ValueType::Struct(&KUBELET_ANONYMOUS_AUTHENTICATION)),
    ],
};

const KUBELET_X509_AUTHENTICATION: StructType =
    StructType { go: "v1beta1.KubeletX509Authentication", fields: &[field("clientCAFile", TEXT)] };

const KUBELET_WEBHOOK_AUTHENTICATION: StructType = StructType {
    go: "v1beta1.KubeletWebhookAuthentication",
    fields: &[field("enabled", ValueType::Bool), field("cacheTTL", DURATION)],
};

const KUBELET_ANONYMOUS_AUTHENTICATION: StructType = StructType {
    go: "v1beta1.KubeletAnonymousAuthentication",
    fields: &[field("enabled", ValueType::Bool)],
};

const KUBELET_AUTHORIZATION: StructType = StructType {
    go: "v1beta1.KubeletAuthorization",
    fields: &[
        field("mode", ValueType::Text("v1beta1.KubeletAuthorizationMode")),
        field("webhook", ValueType::Struct(&KUBELET_WEBHOOK_AUTHORIZATION)),
    ],
};

const KUBELET_WEBHOOK_AUTHORIZATION: StructType = StructType {
    go: "v1beta1.KubeletWebhookAuthorization",
    fields: &[field("cacheAuthorizedTTL", DURATION), field("cacheUnauthorizedTTL", DURATION)],
};

const MEMORY_SWAP_CONFIGURATION: StructType =
    StructType { go: "v1beta1.MemorySwapConfiguration", fields: &[field("swapBehavior", TEXT)] };

const LOGGING_CONFIGURATION: StructType = StructType {
    go: "v1.LoggingConfiguration",
    fields: &[
        field("format", TEXT),
        field("flushFrequency", ValueType::DurationOrNanos),
        field("verbosity", VERBOSITY),
        field(
            "vmodule",
            ValueType::List("v1.VModuleConfiguration", &ValueType::Struct(&VMODULE_ITEM)),
        ),
        field("options", ValueType::Struct(&FORMAT_OPTIONS)),
    ],
};

const VMODULE_ITEM: StructType = StructType {
    go: "v1.VModuleItem",
    fields: &[field("filePattern", TEXT), field("verbosity", VERBOSITY)],
};

const FORMAT_OPTIONS: StructType = StructType {
    go: "v1.FormatOptions",
    fields: &[
        field("text", ValueType::Struct(&TEXT_OPTIONS)),
        field("json", ValueType::Struct(&JSON_OPTIONS)),
    ],
};

const TEXT_OPTIONS: StructType = StructType {
    go: "v1.TextOptions",
    fields: &[
        embedded_field("OutputRoutingOptions", "splitStream", ValueType::Bool),
        embedded_field("OutputRoutingOptions", "infoBufferSize", ValueType::Quantity),
    ],
};

const JSON_OPTIONS: StructType = StructType {
    go: "v1.JSONOptions",
    fields: &[
        embedded_field("OutputRoutingOptions", "splitStream", ValueType::Bool),
        embedded_field("OutputRoutingOptions", "infoBufferSize", ValueType::Quantity),
    ],
};

const SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY: StructType = StructType {
    go: "v1beta1.ShutdownGracePeriodByPodPriority",
    fields: &[field("priority", INT32), field("shutdownGracePeriodSeconds", INT64)],
};

const CRASH_LOOP_BACK_OFF_CONFIG: StructType = StructType {
    go: "v1beta1.CrashLoopBackOffConfig",
    fields: &[field("maxContainerRestartPeriod", OPTIONAL_DURATION)],
};

const MEMORY_RESERVATION: StructType = StructType {
    go: "v1beta1.MemoryReservation",
    fields: &[
        field("numaNode", INT32),
        field("limits", ValueType::Map("v1.ResourceList", &ValueType::Quantity)),
    ],
};

const TAINT: StructType = StructType {
    go: "v1.Taint",
    fields: &[
        field("key", TEXT),
        field("value", TEXT),
        field("effect", ValueType::Text("v1.TaintEffect")),
        field("timeAdded", ValueType::Time),
    ],
};

const TRACING_CONFIGURATION: StructType = StructType {
    go: "v1.TracingConfiguration",
    fields: &[field("endpoint", TEXT), field("samplingRatePerMillion", INT32)],
};

const USER_NAMESPACES: StructType =
    StructType { go: "v1beta1.UserNamespaces", fields: &[field("idsPerPod", INT64)] };
