"""The arguments of Lightning's Trainer that are gone, and their successors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amplint import Edit, constant
from amplint import libcst as cst

if TYPE_CHECKING:
    from amplint import View

TRAINERS: frozenset[str] = frozenset(
    f"{home}Trainer"
    for home in (
        "lightning.", "lightning.pytorch.", "lightning.pytorch.trainer.",
        "pytorch_lightning.", "pytorch_lightning.trainer.",
    )
)  # fmt: skip
TRAINER_REMOVED: dict[str, tuple[str, str]] = {
    "gpus": ("2.0", ": use `accelerator=` and `devices=`"),
    "tpu_cores": ("2.0", ": use `accelerator=` and `devices=`"),
    "num_processes": ("2.0", ": use `accelerator=` and `devices=`"),
    "ipus": ("2.0", ""),
    "distributed_backend": ("1.5", ": use `strategy=`"),
    "amp_backend": ("2.0", ": use `precision=`"),
    "amp_level": ("2.0", ": use `precision=`"),
    "profile": ("0.7", ": use `profiler=`"),
    "auto_select_gpus": ("2.0", ": use `devices=`"),
    "auto_lr_find": ("2.0", ": use `Tuner(trainer).lr_find`"),
    "auto_scale_batch_size": ("2.0", ": use `Tuner(trainer).scale_batch_size`"),
    "replace_sampler_ddp": ("2.0", ": use `use_distributed_sampler=`"),
    "resume_from_checkpoint": ("2.0", ": use `fit(..., ckpt_path=...)`"),
    "weights_summary": ("1.7", ": use `enable_model_summary=`"),
    "progress_bar_refresh_rate": ("1.7", ": use the callback `TQDMProgressBar`"),
    "checkpoint_callback": ("1.7", ": use `enable_checkpointing=`"),
    "flush_logs_every_n_steps": ("1.7", ": it is the logger's"),
    "track_grad_norm": ("2.0", ": use the hook `on_before_optimizer_step`"),
    "move_metrics_to_cpu": ("2.0", ""),
    "terminate_on_nan": ("1.7", ": use `detect_anomaly=`"),
    "truncated_bptt_steps": ("1.5", ""),
    "multiple_trainloader_mode": ("2.0", ": use `CombinedLoader`"),
    "prepare_data_per_node": ("1.7", ": it is the data module's"),
    "stochastic_weight_avg": ("1.7", ": use the callback `StochasticWeightAveraging`"),
    "process_position": ("1.7", ": use the callback `TQDMProgressBar`"),
    "log_gpu_memory": ("1.7", ": use the callback `DeviceStatsMonitor`"),
    "early_stop_callback": ("1.0", ": use the callback `EarlyStopping`"),
    "log_save_interval": ("1.0", ""),
    "row_log_interval": ("1.0", ": use `log_every_n_steps=`"),
    "max_nb_epochs": ("0.8", ": use `max_epochs=`"),
    "nb_gpu_nodes": ("0.8", ": use `num_nodes=`"),
}
"""Arguments that raise in lightning 2.6.6 (run): the first release without it (`Trainer.__init__`
of the tags from 0.7.0 to 2.0.0 of Lightning-AI/pytorch-lightning), and what to use instead (its
changelog)."""

DEVICES = {"gpus": "gpu", "tpu_cores": "tpu", "num_processes": "cpu"}
STRATEGIES = frozenset({"ddp", "ddp_spawn", "ddp_notebook", "ddp_fork"})  # as an accelerator, once
WITHOUT_SUCCESSOR = frozenset({"dp", "ddp2"})
ASKING = frozenset({"strategy", "accelerator", "distributed_backend"})
# The first releases with `devices=` and `strategy=`, and with "16-mixed".
SUCCESSORS, MIXED = "1.5", "2.0"


@dataclass(frozen=True)
class Removed:
    """An argument of a call of the Trainer that is gone, or whose value is.

    Args:
        message: what to say of it.
        release: the first one without it.
        edits: what writes its successor; none where none means the same.
    """

    name: str
    message: str
    release: str
    edits: tuple[Edit, ...]


def removed_arguments(call: View) -> list[Removed]:
    removals = []
    for _, keyword, argument in call.arguments:
        name, value = keyword or "", constant(argument.value)
        release, instead = TRAINER_REMOVED.get(name, ("2.0", ""))
        if name in ASKING and value in WITHOUT_SUCCESSOR:
            message = f'the strategy "{value}" is gone since Lightning 2.0, use "ddp"'
        elif name == "accelerator" and value in STRATEGIES:
            message = f'`accelerator="{value}"` is refused since Lightning 2.0, use `strategy=`'
        elif name in TRAINER_REMOVED:
            message = f"`{name}=` is gone since Lightning {release}{instead}"
        else:
            continue
        edits = tuple(successor(call, name, argument))
        removals.append(Removed(name, message, release, edits))
    return removals


def successor(call: View, name: str, argument: View) -> Iterator[Edit]:
    """Ex) gpus=2 -> accelerator="gpu", devices=2"""
    arg = call.source.keyword(call.cst, name)
    if call.has_star or arg is None:
        return
    edits, value = call.source.edits, constant(argument.value)
    keywords = {keyword for _, keyword, _ in call.arguments}
    if name in DEVICES:
        is_alone = len(keywords & {"accelerator", "devices", *DEVICES}) == 1
        if _names_devices(argument.cst) and is_alone:
            yield edits.name_argument(arg, f'accelerator="{DEVICES[name]}", devices')
    elif name in ("distributed_backend", "accelerator"):
        if value in STRATEGIES and "strategy" not in keywords:
            yield edits.name_argument(arg, "strategy")
    elif name == "profile" and value is True and "profiler" not in keywords:
        yield edits.name_argument(arg, "profiler")
        yield edits.replace(argument.cst, '"simple"')


def _names_devices(value: cst.BaseExpression) -> bool:
    """Ex) 2, [0, 1]; a variable may be -1, "0,1" or None elsewhere"""
    if isinstance(value, cst.List):
        indices = [element.value for element in value.elements]
        return bool(indices) and all(isinstance(each, cst.Integer) for each in indices)
    return isinstance(value, cst.Integer) and value.evaluated_value > 0


def renewed(removed: list[Removed], release: str) -> tuple[Edit, ...] | None:
    """The edits that write all successors at once. None where an argument is left that no release
    has beside them, or beside something else that is written.

    Args:
        release: the first one that knows all that is written.
    """
    if any(not each.edits and each.release <= release for each in removed):
        return None
    return tuple(edit for each in removed for edit in each.edits)
