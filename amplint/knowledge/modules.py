"""Results of calling an instance of a torch.nn class."""

from __future__ import annotations

from dataclasses import dataclass

from amplint.knowledge.names import rows, words_of


@dataclass(frozen=True)
class ModuleFacts:
    """The result of calling an instance of a torch.nn class.

    Args:
        kind: "module"; "criterion"; "container" (what it returns is up to what it holds).
        dtype: "same" (as the input's, with which the parameters must agree outside autocast);
            "param" (of the parameters, whatever the input); "promote" (of the inputs); "unknown".
        rank: "same"; "some"; "reduction" (0-dim unless the instance has reduction="none");
            "unknown".
        returns: "tensor"; "tensors" (a tuple, perhaps nested: LSTM, MultiheadAttention); "any".
    """

    kind: str
    dtype: str
    rank: str
    returns: str = "tensor"


MODULES: dict[str, ModuleFacts] = {
    f"torch.nn.{word}": ModuleFacts(*facts.split())
    for facts, words in rows("""
module same same: AlphaDropout CELU Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout
    GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid LogSoftmax Mish
    PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Tanh
    Tanhshrink Threshold
module same some: AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d
    AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d BatchNorm1d BatchNorm2d
    BatchNorm3d Bilinear ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d
    ConstantPad2d ConstantPad3d Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    CrossMapLRN2d Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GLU GRUCell GroupNorm
    InstanceNorm1d InstanceNorm2d InstanceNorm3d LPPool1d LPPool2d LPPool3d LayerNorm
    LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d
    LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear Linear LocalResponseNorm MaxPool1d MaxPool2d
    MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d PixelShuffle PixelUnshuffle RMSNorm RNNCell
    ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d
    ReplicationPad3d Softmax2d SyncBatchNorm Transformer TransformerDecoder TransformerDecoderLayer
    TransformerEncoder TransformerEncoderLayer Unflatten Unfold Upsample UpsamplingBilinear2d
    UpsamplingNearest2d ZeroPad1d ZeroPad2d ZeroPad3d
module promote unknown: CosineSimilarity PairwiseDistance
module param some: Embedding EmbeddingBag
module same some tensors: GRU LSTM LSTMCell MultiheadAttention RNN
module unknown unknown tensors: AdaptiveLogSoftmaxWithLoss
criterion same reduction: CTCLoss CrossEntropyLoss HingeEmbeddingLoss HuberLoss
    LinearCrossEntropyLoss MultiLabelMarginLoss MultiMarginLoss NLLLoss NLLLoss2d SoftMarginLoss
criterion promote reduction: BCELoss CosineEmbeddingLoss GaussianNLLLoss KLDivLoss L1Loss MSELoss
    MarginRankingLoss MultiLabelSoftMarginLoss PoissonNLLLoss SmoothL1Loss TripletMarginLoss
    TripletMarginWithDistanceLoss
criterion unknown reduction: BCEWithLogitsLoss
container unknown unknown any: Module ModuleDict ModuleList ParameterDict ParameterList Sequential
""")
    for word in words.split()
}

SIZES: dict[str, tuple[str, ...]] = {
    word: tuple(parameters.split())
    for parameters, words in rows("""
in_features out_features: Linear
in1_features in2_features out_features: Bilinear
in_channels out_channels: Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
num_embeddings embedding_dim: Embedding EmbeddingBag
num_features: BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d
    SyncBatchNorm
num_groups num_channels: GroupNorm
input_size hidden_size: GRU GRUCell LSTM LSTMCell RNN RNNCell
embed_dim num_heads: MultiheadAttention
d_model nhead: Transformer TransformerDecoderLayer TransformerEncoderLayer
""")
    for word in words.split()
}
"""A class of torch.nn -> its first parameters, as many as are whole numbers that name sizes."""

RETURNING_ITSELF: frozenset[str] = words_of(
    "bfloat16 cpu cuda double eval float half requires_grad_ to train"
)
"""Methods of a module that return it (torch 2.13, the docstrings of `torch.nn.Module`); not `apply`
and `type`, which other things have, too."""
