"""Draw the packages and the files of a new validation set, before anybody has looked at them.

    python -m tests.accuracy.draw                     the packages, in the order of taking
    python -m tests.accuracy.draw DIR [--framework]   the files of an unpacked package

The rule stands here before a set is labelled: which packages is up to the seed alone, which files
to a count of words. Nothing of either rests on what amplint says of them.

The sixth set took the first nine and eight of the two kinds (without optimum and torchdrug, which
could not be had whole). The seventh goes on where it ended: nine and eight again, and more in the
same order while fewer than 150 sure positives are labelled. It leaves out what trains nothing
(whisper-timestamped, gptqmodel, s3tokenizer, and lmflow and metaseq, of whose files none derives a
class or none is in the release), and sb3-contrib, which a model was read from.

The eighth takes what is left: the six within a framework, and chronos-forecasting, whose models
derive from those of transformers, as the seventh; then the others to the end of the order. It
leaves out distiller (another package bears that name), and ptflops, which trains nothing.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from pathlib import Path

SEED = 6
WITHIN_FRAMEWORKS, OTHERS = 9, 8  # packages that are taken, of each kind

# Packages that derive classes from what a framework calls: trainers, modules, callbacks, heads.
FRAMEWORK = """
    adapters autogluon.multimodal autogluon.timeseries autotrain-advanced braindecode chemprop
    finetuning-scheduler lightning-flash lightning-pose llm-foundry lmflow matcha-tts metaseq
    mmdet3d mmflow mmrotate mmselfsup mmtrack mmyolo nemo-aligner neuralprophet optimum
    pytorch-accelerated pytorch-frame pytorch-tabular pytorchvideo rl-zoo3 sb3-contrib
    solo-learn uni2ts unsloth-zoo vocos
""".split()
OTHER = """
    allennlp-models bigvgan botorch chronos-forecasting compressed-tensors dasheng deepctr-torch
    descript-audio-codec distiller fair-esm fairseq2 gptqmodel lerobot llmcompressor machin mbrl
    momentfm neural-compressor normflows optimum-quanto poutyne ptflops pyhealth pytorch-adapt
    pytorch-ood rllte-core robomimic s3tokenizer skada spacy-transformers stanza
    torch-audiomentations torch-pruning torch-rechub torchani torchdrug torchxrayvision
    voicefixer whisper-timestamped
""".split()
HOMES = frozenset(
    """
    transformers trl peft accelerate lightning pytorch_lightning lightning_fabric mmengine mmcv
    mmdet mmcls mmpretrain detectron2 fairseq espnet espnet2 speechbrain fastai timm torch_geometric
    torchmetrics composer skorch stable_baselines3 ignite nemo
    """.split()
)
MOST_FILES = 5  # of a package
WORDS = re.compile(
    r"autocast|GradScaler|scaler|\bamp\b|half\(|float16|bfloat16|\bfp16\b|\bbf16\b|backward\(|"
    r"\.item\(|\.cpu\(|\.numpy\(|\.tolist\(|\.cuda\(|\.to\(|device|no_grad|optimizer|torch\.(zeros|"
    r"ones|arange|tensor|full|empty)\(|training_step|compute_loss|DataLoader"
)
NOT_TRAINING = re.compile(
    r"(^|/)(tests?|docs?|examples?/data|build)(/|$)|(^|/)(test_|conftest|setup\.py)"
)


def packages() -> list[str]:
    """The packages, in the order in which they are taken: one that cannot be had, or whose files
    train nothing, is followed by the next of its kind."""
    draw = random.Random(SEED)
    return [
        *draw.sample(sorted(FRAMEWORK), len(FRAMEWORK)),
        *draw.sample(sorted(OTHER), len(OTHER)),
    ]


def files(root: Path, within_framework: bool) -> list[str]:
    """The files of a package that speak most of what amplint looks at; of a package that lives in a
    framework, of those that derive a class from what they import from it, then of the others."""
    counted = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8", errors="replace")
        if NOT_TRAINING.search(name) or len(text.splitlines()) > 1500:
            continue
        derives = within_framework and derives_from_framework(text)
        counted.append((not derives, -len(WORDS.findall(text)), name))
    return [name for _, count, name in sorted(counted)[:MOST_FILES] if count]


def derives_from_framework(text: str) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in HOMES
    }
    return any(
        ast.unparse(base).partition(".")[0] in imported
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    )


def main(arguments: list[str]) -> None:
    if arguments:
        root = Path(arguments[0])
        print(*files(root, "--framework" in arguments), sep="\n")
        return
    drawn = packages()
    print("within a framework:", *drawn[: len(FRAMEWORK)])
    print("others:", *drawn[len(FRAMEWORK) :])


if __name__ == "__main__":
    main(sys.argv[1:])
