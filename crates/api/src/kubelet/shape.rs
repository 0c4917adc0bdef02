//! What a KubeletConfiguration of Kubernetes 1.36 may hold (spec 10 §6.6): every key with its type.
//!
//! The names of Go types are there because the decoder's messages name them, and users search for
//! those messages.

/// The type of one value.
#[derive(Debug)]
pub(super) enum Shape {
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
    List(&'static str, &'static Shape),
    Map(&'static str, &'static Shape),
    Struct(&'static Struct),
}

/// An object with known keys.
#[derive(Debug)]
pub(super) struct Struct {
    pub(super) go: &'static str,
    pub(super) fields: &'static [Field],
}

/// One known key.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// The Go struct that the field comes from, where it is embedded in another.
    pub(super) embedded_in: Option<&'static str>,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, embedded_in: None }
}

const fn embedded(parent: &'static str, name: &'static str, shape: Shape) -> Field {
    Field { name, shape, embedded_in: Some(parent) }
}

const TEXT: Shape = Shape::Text("string");
const TEXTS: Shape = Shape::List("[]string", &TEXT);
const TEXT_MAP: Shape = Shape::Map("map[string]string", &TEXT);
const INT32: Shape = Shape::Integer { go: "int32", min: i32::MIN as i64, max: i32::MAX as i64 };
const INT64: Shape = Shape::Integer { go: "int64", min: i64::MIN, max: i64::MAX };
const VERBOSITY: Shape = Shape::Integer { go: "v1.VerbosityLevel", min: 0, max: u32::MAX as i64 };
const DURATION: Shape = Shape::Duration { optional: false };
const OPTIONAL_DURATION: Shape = Shape::Duration { optional: true };

/// The whole of `spec.kubelet`.
pub(super) const KUBELET_CONFIGURATION: Struct = Struct {
    go: "v1beta1.KubeletConfiguration",
    fields: &[
        embedded("TypeMeta", "kind", TEXT),
        embedded("TypeMeta", "apiVersion", TEXT),
        field("enableServer", Shape::Bool),
        field("staticPodPath", TEXT),
        field("podLogsDir", TEXT),
        field("syncFrequency", DURATION),
        field("fileCheckFrequency", DURATION),
        field("httpCheckFrequency", DURATION),
        field("staticPodURL", TEXT),
        field("staticPodURLHeader", Shape::Map("map[string][]string", &TEXTS)),
        field("address", TEXT),
        field("port", INT32),
        field("readOnlyPort", INT32),
        field("tlsCertFile", TEXT),
        field("tlsPrivateKeyFile", TEXT),
        field("tlsCipherSuites", TEXTS),
        field("tlsCurvePreferences", Shape::List("[]int32", &INT32)),
        field("tlsMinVersion", TEXT),
        field("rotateCertificates", Shape::Bool),
        field("serverTLSBootstrap", Shape::Bool),
        field("authentication", Shape::Struct(&KUBELET_AUTHENTICATION)),
        field("authorization", Shape::Struct(&KUBELET_AUTHORIZATION)),
        field("registryPullQPS", INT32),
        field("registryBurst", INT32),
        field(
            "imagePullCredentialsVerificationPolicy",
            Shape::Text("v1beta1.ImagePullCredentialsVerificationPolicy"),
        ),
        field("preloadedImagesVerificationAllowlist", TEXTS),
        field("eventRecordQPS", INT32),
        field("eventBurst", INT32),
        field("enableDebuggingHandlers", Shape::Bool),
        field("enableContentionProfiling", Shape::Bool),
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
        field("cgroupsPerQOS", Shape::Bool),
        field("cgroupDriver", TEXT),
        field("cpuManagerPolicy", TEXT),
        field("singleProcessOOMKill", Shape::Bool),
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
        field("runOnce", Shape::Bool),
        field("cpuCFSQuota", Shape::Bool),
        field("cpuCFSQuotaPeriod", OPTIONAL_DURATION),
        field("nodeStatusMaxImages", INT32),
        field("maxOpenFiles", INT64),
        field("contentType", TEXT),
        field("kubeAPIQPS", INT32),
        field("kubeAPIBurst", INT32),
        field("serializeImagePulls", Shape::Bool),
        field("maxParallelImagePulls", INT32),
        field("evictionHard", TEXT_MAP),
        field("evictionSoft", TEXT_MAP),
        field("evictionSoftGracePeriod", TEXT_MAP),
        field("evictionPressureTransitionPeriod", DURATION),
        field("evictionMaxPodGracePeriod", INT32),
        field("evictionMinimumReclaim", TEXT_MAP),
        field("mergeDefaultEvictionSettings", Shape::Bool),
        field("podsPerCore", INT32),
        field("enableControllerAttachDetach", Shape::Bool),
        field("protectKernelDefaults", Shape::Bool),
        field("makeIPTablesUtilChains", Shape::Bool),
        field("iptablesMasqueradeBit", INT32),
        field("iptablesDropBit", INT32),
        field("featureGates", Shape::Map("map[string]bool", &Shape::Bool)),
        field("failSwapOn", Shape::Bool),
        field("memorySwap", Shape::Struct(&MEMORY_SWAP_CONFIGURATION)),
        field("containerLogMaxSize", TEXT),
        field("containerLogMaxFiles", INT32),
        field("containerLogMaxWorkers", INT32),
        field("containerLogMonitorInterval", OPTIONAL_DURATION),
        field(
            "configMapAndSecretChangeDetectionStrategy",
            Shape::Text("v1beta1.ResourceChangeDetectionStrategy"),
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
        field("kernelMemcgNotification", Shape::Bool),
        field("logging", Shape::Struct(&LOGGING_CONFIGURATION)),
        field("enableSystemLogHandler", Shape::Bool),
        field("enableSystemLogQuery", Shape::Bool),
        field("shutdownGracePeriod", DURATION),
        field("shutdownGracePeriodCriticalPods", DURATION),
        field(
            "shutdownGracePeriodByPodPriority",
            Shape::List(
                "[]v1beta1.ShutdownGracePeriodByPodPriority",
                &Shape::Struct(&SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY),
            ),
        ),
        field("crashLoopBackOff", Shape::Struct(&CRASH_LOOP_BACK_OFF_CONFIG)),
        field(
            "reservedMemory",
            Shape::List("[]v1beta1.MemoryReservation", &Shape::Struct(&MEMORY_RESERVATION)),
        ),
        field("enableProfilingHandler", Shape::Bool),
        field("enableDebugFlagsHandler", Shape::Bool),
        field("seccompDefault", Shape::Bool),
        field("memoryThrottlingFactor", Shape::Float),
        field("memoryReservationPolicy", Shape::Text("v1beta1.MemoryReservationPolicy")),
        field("registerWithTaints", Shape::List("[]v1.Taint", &Shape::Struct(&TAINT))),
        field("registerNode", Shape::Bool),
        field("tracing", Shape::Struct(&TRACING_CONFIGURATION)),
        field("localStorageCapacityIsolation", Shape::Bool),
        field("containerRuntimeEndpoint", TEXT),
        field("imageServiceEndpoint", TEXT),
        field("failCgroupV1", Shape::Bool),
        field("userNamespaces", Shape::Struct(&USER_NAMESPACES)),
    ],
};

const KUBELET_AUTHENTICATION: Struct = Struct {
    go: "v1beta1.KubeletAuthentication",
    fields: &[
        field("x509", Shape::Struct(&KUBELET_X509_AUTHENTICATION)),
        field("webhook", Shape::Struct(&KUBELET_WEBHOOK_AUTHENTICATION)),
        field("anonymous", Shape::Struct(&KUBELET_ANONYMOUS_AUTHENTICATION)),
    ],
};

const KUBELET_X509_AUTHENTICATION: Struct =
    Struct { go: "v1beta1.KubeletX509Authentication", fields: &[field("clientCAFile", TEXT)] };

const KUBELET_WEBHOOK_AUTHENTICATION: Struct = Struct {
    go: "v1beta1.KubeletWebhookAuthentication",
    fields: &[field("enabled", Shape::Bool), field("cacheTTL", DURATION)],
};

const KUBELET_ANONYMOUS_AUTHENTICATION: Struct = Struct {
    go: "v1beta1.KubeletAnonymousAuthentication",
    fields: &[field("enabled", Shape::Bool)],
};

const KUBELET_AUTHORIZATION: Struct = Struct {
    go: "v1beta1.KubeletAuthorization",
    fields: &[
        field("mode", Shape::Text("v1beta1.KubeletAuthorizationMode")),
        field("webhook", Shape::Struct(&KUBELET_WEBHOOK_AUTHORIZATION)),
    ],
};

const KUBELET_WEBHOOK_AUTHORIZATION: Struct = Struct {
    go: "v1beta1.KubeletWebhookAuthorization",
    fields: &[field("cacheAuthorizedTTL", DURATION), field("cacheUnauthorizedTTL", DURATION)],
};

const MEMORY_SWAP_CONFIGURATION: Struct =
    Struct { go: "v1beta1.MemorySwapConfiguration", fields: &[field("swapBehavior", TEXT)] };

const LOGGING_CONFIGURATION: Struct = Struct {
    go: "v1.LoggingConfiguration",
    fields: &[
        field("format", TEXT),
        field("flushFrequency", Shape::DurationOrNanos),
        field("verbosity", VERBOSITY),
        field("vmodule", Shape::List("v1.VModuleConfiguration", &Shape::Struct(&VMODULE_ITEM))),
        field("options", Shape::Struct(&FORMAT_OPTIONS)),
    ],
};

const VMODULE_ITEM: Struct = Struct {
    go: "v1.VModuleItem",
    fields: &[field("filePattern", TEXT), field("verbosity", VERBOSITY)],
};

const FORMAT_OPTIONS: Struct = Struct {
    go: "v1.FormatOptions",
    fields: &[
        field("text", Shape::Struct(&TEXT_OPTIONS)),
        field("json", Shape::Struct(&JSONOPTIONS)),
    ],
};

const TEXT_OPTIONS: Struct = Struct {
    go: "v1.TextOptions",
    fields: &[
        embedded("OutputRoutingOptions", "splitStream", Shape::Bool),
        embedded("OutputRoutingOptions", "infoBufferSize", Shape::Quantity),
    ],
};

const JSONOPTIONS: Struct = Struct {
    go: "v1.JSONOptions",
    fields: &[
        embedded("OutputRoutingOptions", "splitStream", Shape::Bool),
        embedded("OutputRoutingOptions", "infoBufferSize", Shape::Quantity),
    ],
};

const SHUTDOWN_GRACE_PERIOD_BY_POD_PRIORITY: Struct = Struct {
    go: "v1beta1.ShutdownGracePeriodByPodPriority",
    fields: &[field("priority", INT32), field("shutdownGracePeriodSeconds", INT64)],
};

const CRASH_LOOP_BACK_OFF_CONFIG: Struct = Struct {
    go: "v1beta1.CrashLoopBackOffConfig",
    fields: &[field("maxContainerRestartPeriod", OPTIONAL_DURATION)],
};

const MEMORY_RESERVATION: Struct = Struct {
    go: "v1beta1.MemoryReservation",
    fields: &[
        field("numaNode", INT32),
        field("limits", Shape::Map("v1.ResourceList", &Shape::Quantity)),
    ],
};

const TAINT: Struct = Struct {
    go: "v1.Taint",
    fields: &[
        field("key", TEXT),
        field("value", TEXT),
        field("effect", Shape::Text("v1.TaintEffect")),
        field("timeAdded", Shape::Time),
    ],
};

const TRACING_CONFIGURATION: Struct = Struct {
    go: "v1.TracingConfiguration",
    fields: &[field("endpoint", TEXT), field("samplingRatePerMillion", INT32)],
};

const USER_NAMESPACES: Struct =
    Struct { go: "v1beta1.UserNamespaces", fields: &[field("idsPerPod", INT64)] };
