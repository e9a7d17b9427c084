"""Type tokens for Slipway's resources. Never change one: existing stacks' state contains them."""

AKS = "slipway:clusters:Aks"
AZURE_LOCAL = "slipway:clusters:AzureLocal"
AZURE_LOCAL_KUBECONFIG = "slipway:clusters:AzureLocalKubeconfig"
CLUSTER_ACCESS = "slipway:clusters:Access"
EMBEDDED = "slipway:clusters:Embedded"
KIND = "slipway:clusters:Kind"
MINIKUBE = "slipway:clusters:Minikube"

IMAGE = "slipway:images:Image"
JOB_IMAGE = "slipway:images:JobImage"
PROGRAM = "slipway:images:Program"

GPUS = "slipway:infra:Gpus"
GPU_READY = "slipway:infra:GpuReady"
JOB_NAMESPACE = "slipway:infra:JobNamespace"
OPERATOR_READY = "slipway:infra:OperatorReady"
TRACKING_READY = "slipway:infra:TrackingReady"
TRACKING_SERVER = "slipway:infra:TrackingServer"
TRAINING_OPERATOR = "slipway:infra:TrainingOperator"

CLAIM = "slipway:jobs:Claim"
GATE = "slipway:jobs:Gate"
PYTORCH_JOB = "slipway:jobs:PyTorchJob"

TRAINING = "slipway:index:Training"
