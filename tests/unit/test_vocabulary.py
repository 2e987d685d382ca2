"""What people call their things is said in `knowledge.vocabulary`, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from amplint.analyses.cold_guards import wishes_output
from amplint.analyses.hotness import is_cold_by_name
from amplint.knowledge import vocabulary
from tests.helpers import tree_of

ROOT = Path(__file__).resolve().parents[2]
PLAIN = re.compile(r"[a-z_][a-z0-9_]*")

# Rooms and modules that have nothing to do with the names of user code.
ELSEWHERE = {
    "amplint/knowledge/": "the vocabulary, and the tables of what libraries have",
    "amplint/ir/ops.py": "the operations of value graphs",
    "amplint/frameworks/": "how the models of frameworks are written",
    "amplint/util/": "text, files, terminals",
    "amplint/values/": "amplint's own values",
    "amplint/findings/": "codes, and the words of comments",
    "amplint/rule/": "declarations of rules",
    "amplint/fix/": "the text of fixes",
    "amplint/source/edits/": "the text of fixes",
    "amplint/adoption/": "known findings",
    "amplint/project/": "settings, notebooks, files",
    "amplint/output/": "reports",
    "amplint/run/": "amplint's own files",
    "amplint/cli/": "options of the command line",
    "amplint/server/": "requests of editors",
    "amplint/testing.py": "marks in fixtures, and the words of messages",
}
# By reason: modules, each with the names of its lists.
ALLOWED: dict[str, dict[str, str]] = {
    "torch: its functions and methods, their arguments, dtypes and devices": {
        "rules/precision/_cast_modules.py": "BUFFERS OWN_CASTS",
        "amplint/facts/project_classes.py": "MOVING",
        "amplint/inference/function/activations.py": "LIMITS",
        "amplint/analyses/cast_cache.py": "HALVES CASTS_TO_HALF",
        "amplint/analyses/cold_guards.py": "COUNTS SHOWS NONFINITE",
        "rules/numerics/_counted_positions.py": "NAMES",
        "amplint/analyses/backward_calls.py": "GRADIENTS_ON NO_GRADIENTS",
        "rules/memory/_workers.py": "OF_INDEXED",
        "amplint/analyses/loop_invariance.py": "DRAWN SHAPED_BY WRITES",
        "amplint/analyses/module_uses.py": "FREEZING OVERWRITING SWITCHES",
        "amplint/analyses/provenance.py": "MOVING",
        "rules/gradscaler/_scaled_losses.py": "CUTS PRINTS",
        "rules/autocast/_dtype_options.py": "SETS_DTYPE",
        "rules/autocast/region_of_another_device.py": "FLOAT16",
        "rules/gradscaler/scaled_gradients_watched.py": "OF_GRADIENTS",
        "amplint/gradscaler/events.py": (
            "CLAMPS CLAMPS_IN_PLACE MODULE_CASTS NORMS PROTOCOL SAME_NORM VISITING VISITS"
        ),
        "amplint/gradscaler/gradient_statistics.py": "OF_EACH_ELEMENT REDUCTIONS",
        "amplint/gradscaler/missing_calls.py": "NEEDED",
        "amplint/gradscaler/parameter_lists.py": "ASKED EACH_PARAMETER",
        "amplint/gradscaler/symbolic_values.py": "ASKED_OF_NORMS",
        "amplint/inference/function/attributes.py": "MODULE_CONVERSIONS MODULE_METHODS REGISTRIES",
        "amplint/inference/function/calls.py": "MOVES",
        "amplint/inference/function/parameters.py": "MOVING",
        "amplint/inference/function/regions.py": "RUN_BY_CALL",
        "amplint/inference/whole_program/class_hierarchy.py": "NO_MODULES",
        "amplint/inference/whole_program/observation_values.py": "TENSOR",
        "amplint/inference/whole_program/number_uses.py": "OF_TENSORS_ALONE",
        "amplint/inference/transfer/ranks.py": "MASKS",
        "amplint/inference/transfer/arguments.py": "HOST_DEVICES",
        "amplint/inference/transfer/attributes.py": "MODULE_TENSORS",
        "amplint/inference/transfer/methods.py": "VIEWS",
        "amplint/inference/transfer/symbols.py": "DTYPES",
        "amplint/inference/whole_program/use_evidence.py": (
            "AVERAGES BACKWARD_KEYWORDS MODULE_USES MODULE_USES_IF_CALLED MOVES OF_LENGTHS"
            " ONLY_OF_TENSORS REDUCTIONS SHAPING_USES TENSOR_USES WORDS"
        ),
        "rules/_shared/classes.py": "PLAIN",
        "rules/host_sync/_conditions.py": "SIZE",
        "rules/host_sync/_counts.py": "MASKS",
        "rules/_shared/dtypes.py": "SAME_DTYPE",
        "rules/precision/_operands.py": "DEFAULT_DTYPE",
        "rules/_shared/factories.py": (
            "CONVERSIONS CONVERSIONS_TO_INTEGERS DECIDING OF_INTS OTHER_DEFAULTS ROUNDED"
            " SAME_ANYWHERE"
        ),
        "rules/_shared/forward.py": "PASSIVE",
        "rules/_shared/gpus.py": "GPU OF_NCCL SEVERAL",
        "rules/_shared/growth.py": "ADDING",
        "rules/_shared/guards.py": "GETS_OF_TORCH NEW_NAME OF_AMP",
        "rules/_shared/host_copies.py": "KEYWORDS MOVES",
        "rules/_shared/local_values.py": "INT_METHODS",
        "rules/precision/_buffers.py": "COPIES",
        "rules/numerics/_probabilities.py": "COMPUTED LOGARITHMS WIDER",
        "rules/_shared/reads.py": "TYPE_OF_HOST",
        "rules/_shared/tensors.py": "TENSOR_METHODS",
        "rules/autocast/banned_loss_in_autocast.py": "FORWARDING REFUSING",
        "rules/autocast/fp32_island_without_float.py": "HALF_WORDS",
        "rules/autocast/function_without_custom_fwd.py": "BARE CASTING FORMING PRODUCTS",
        "rules/autocast/half_unsupported_op_in_autocast.py": "ASKS BFLOAT16 OF_COMPLEX",
        "rules/autocast/loss_outside_autocast.py": "CLASSIFYING",
        "rules/autocast/optimizer_step_in_autocast.py": "OF_TRAINING",
        "rules/host_sync/host_read_per_element.py": "READING",
        "rules/host_sync/synchronize_in_hot_path.py": "OTHER_STREAMS STREAMS",
        "rules/host_sync/timing_without_synchronize.py": "WAITING",
        "rules/memory/cuda_in_dataset.py": "AVAILABLE",
        "rules/memory/debug_mode_left_on.py": "OFF_AGAIN",
        "rules/memory/inference_without_no_grad.py": "OFF_FOR_A_BLOCK SWITCHES_OFF",
        "rules/memory/loss_cut_from_graph.py": "OPTIONS",
        "rules/numerics/constant_beyond_half_range.py": "MASKING WITHOUT_TENSOR",
        "rules/numerics/epsilon_below_half_range.py": "LIMITING LOWER",
        "rules/numerics/positions_in_half.py": "ANGLES CASTING POWERS WORDS",
        "rules/parallel/host_read_in_self_log.py": "CONVERTING",
        "rules/parallel/manual_amp_in_automatic_optimization.py": "OF_SCALER",
        "rules/placement/tensor_attribute_not_buffer.py": "DEVICES",
        "rules/placement/tensor_from_tensor.py": "PLACEMENT",
        "rules/precision/factory_then_cast.py": "KNOWN_ARGUMENTS MOVE_OPTIONS",
        "rules/precision/factory_without_dtype.py": "JOINS",
        "rules/precision/frequencies_cast_with_module.py": "COUNTED OTHERS POWER USES",
        "rules/precision/half_module_float_input.py": "CASTING CAST_IN_TEXT MOVING",
        "rules/precision/integers_cast_to_half.py": "OF_CLASSES SAME_NUMBERS",
        "rules/precision/mixed_dtype_where.py": "TENSOR_CASTS",
        "rules/precision/mixed_dtype_write.py": "SOURCE_NAMES",
    },
    "Python: its library, its containers and their methods": {
        "amplint/facts/project_classes.py": "ELEMENTS",
        "rules/memory/_grad_mode.py": "LEAVING",
        "rules/memory/_workers.py": "OF_ITERABLE",
        "amplint/analyses/loop_invariance.py": "CONSTRUCTORS IMPURE SETTERS",
        "amplint/analyses/provenance.py": "DRAWING",
        "amplint/analyses/self_tests.py": "NAME,MAIN",
        "amplint/analyses/tensor_certainty.py": "OF_MAPPINGS",
        "amplint/gradscaler/checkpoints.py": "HARMLESS",
        "amplint/gradscaler/parameter_lists.py": "ADDING",
        "amplint/inference/function/calls.py": "CONTEXT_MAKERS",
        "amplint/inference/function/narrowing.py": "FORMS PLAIN",
        "amplint/inference/transfer/attributes.py": "CONTAINER_METHODS",
        "amplint/inference/transfer/symbols.py": "MATH_CONSTANTS",
        "amplint/ir/module_names.py": "ALWAYS_LIBRARIES",
        "amplint/ir/ssa.py": "ENTERING LEAVING STACKING",
        "rules/host_sync/_clocks.py": "READS_CLOCK",
        "rules/_shared/constants.py": "PLAIN_NUMBERS",
        "rules/migration/_deprecated.py": "ASKING",
        "rules/host_sync/_formatting.py": "LOG_METHODS",
        "rules/_shared/guards.py": "CATCHES ENDS_PROCESS",
        "rules/_shared/host_copies.py": "INFINITE OF_MATH",
        "rules/_shared/moves.py": "NAMING",
        "rules/host_sync/python_builtin_over_tensor.py": "CONVERSIONS",
        "rules/host_sync/tensor_as_python_number.py": "INTEGER_BUILTINS",
        "rules/autocast/region_without_forward.py": "CALLING KEEPING",
    },
    "other libraries: their modules, methods and arguments": {
        "amplint/analyses/backward_calls.py": "BACKWARD_METHODS",
        "amplint/gradscaler/events.py": "PRETRAINED",
        "amplint/inference/whole_program/presumption.py": "PATCHING",
        "amplint/inference/whole_program/use_evidence.py": "ACCELERATOR_USES",
        "amplint/ir/module_names.py": "LIBRARIES",
        "rules/host_sync/_formatting.py": "POSTFIX_METHODS",
        "rules/parallel/_trainer.py": "ASKING STRATEGIES WITHOUT_SUCCESSOR",
        "rules/migration/apex_amp.py": "PUBLIC",
        "rules/parallel/hard_coded_device_in_lightning_module.py": "HOOK TRANSFER",
    },
    "the grammar: identifiers, imports, strings, comments": {
        "rules/migration/apex_amp.py": "BACKWARD INITIALIZED OPTIONAL",
        "rules/autocast/banned_loss_in_autocast.py": "QUOTED",
        "rules/autocast/_switches.py": "SWITCHING",
        "amplint/source/pairing.py": "_AST_LEAVES",
        "amplint/source/segments.py": "LONE_CR _FORM_FEED_INDENT",
        "amplint/gradscaler/event_index.py": "WORD",
        "amplint/inference/incremental/grafting.py": "WORD",
        "amplint/ir/file_index.py": "IDENTIFIER",
        "amplint/ir/file_set.py": "STAR",
        "amplint/ir/ssa.py": "LEAVES",
    },
    "amplint's own words: kinds of values, keys, blocks, questions": {
        "rules/autocast/_backward_support.py": "STEPPING",
        "amplint/analyses/hotness.py": "TRAINING,EVALUATION CALLED,LOOP,DEFINED",
        "amplint/analyses/module_uses.py": "ON_SOME_PATHS",
        "amplint/facts/recorded_questions.py": "EVALUATED,EVIDENCE,SPAN",
        "amplint/gradscaler/symbolic_values.py": "UNARY",
        "amplint/inference/evidence_marks.py": "DEVICE,DTYPE,CONTEXT",
        "amplint/inference/explanation.py": "RESULTS",
        "amplint/inference/whole_program/class_hierarchy.py": "CALLED",
        "amplint/inference/state.py": "KeyKind",
        "amplint/inference/store.py": "FOLLOWED_ONCE OF_CODE OF_NODES OF_REGIONS PUBLISHED",
        "amplint/inference/transfer/arithmetic.py": "NUMBERS",
        "amplint/inference/transfer/distributions.py": "NUMBERS",
        "amplint/ir/model.py": "LOOPS SIDES",
        "rules/autocast/optimizer_step_in_autocast.py": "KINDS",
        "rules/autocast/half_training_without_scaler.py": "COMPUTED",
        "rules/parallel/sync_skipped_on_the_step.py": "COMPUTED OUTSIDE STEPPING",
        "rules/host_sync/host_read_per_element.py": "ELEMENTS",
        "rules/host_sync/timing_without_synchronize.py": "LAUNCHED",
    },
}


def lists_of(tree: ast.Module) -> Iterator[str]:
    """The constants of a module that are patterns, or have words in a collection."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target, value = node.target, node.value
        else:
            continue
        if any(map(is_list, ast.walk(value))):
            yield ast.unparse(target).strip("()").replace(" ", "")


def is_list(node: ast.AST) -> bool:
    """Ex) lazy_pattern("..."), {"one", "two"}, "one two".split()"""
    words: list[object] = []
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        words = [getattr(each, "value", None) for each in node.elts]
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "lazy_pattern"):
        return True
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        text = node.func.value
        if node.func.attr == "split" and isinstance(text, ast.Constant):
            words = [*str(text.value).split()]
    return bool(words) and all(isinstance(w, str) and PLAIN.fullmatch(w) for w in words)


def found() -> set[tuple[str, str]]:
    """The lists of all modules but those of `ELSEWHERE`: path and name."""
    pairs: set[tuple[str, str]] = set()
    for path in chain(ROOT.glob("amplint/**/*.py"), ROOT.glob("rules/**/*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(tuple(ELSEWHERE)):
            pairs.update((place, name) for name in lists_of(tree_of(path)))
    return pairs


def test_a_list_of_words_is_in_the_vocabulary_or_is_about_something_else() -> None:
    """What is about names that users choose belongs to knowledge/vocabulary.py."""
    allowed = {
        (place, name)
        for modules in ALLOWED.values()
        for place, names in modules.items()
        for name in names.split()
    }
    assert found() - allowed == set()
    assert allowed - found() == set(), "no longer there"


@pytest.mark.parametrize(
    "text",
    ['A = re.compile("loader")', 'A: X = frozenset({"eval", "dev"})', 'A = words("a b".split())'],
)
def test_what_counts_as_a_list(text: str) -> None:
    assert [*lists_of(ast.parse(text))] == ["A"]


@pytest.mark.parametrize("text", ['A = "eval"', 'A = {"torch.nn": 1}', "A = f(1, 2)", "import re"])
def test_what_is_none(text: str) -> None:
    assert [*lists_of(ast.parse(text))] == []


@pytest.mark.parametrize(
    "path", ["optimizer", "self.optim", "optimizerG", "optimizer_d", "opt", "g_opt", "self.opt_g"]
)
def test_the_names_of_optimizers(path: str) -> None:
    assert vocabulary.OPTIMIZER.search(path)


@pytest.mark.parametrize("path", ["options", "adopt", "optional", "self.option"])
def test_what_is_no_name_of_an_optimizer(path: str) -> None:
    assert not vocabulary.OPTIMIZER.search(path)


@pytest.mark.parametrize(
    "decorator", ["functools.cache", "functools.lru_cache", "cached", "lru_cache_unless_export"]
)
def test_what_keeps_its_results_is_cold(decorator: str) -> None:
    assert is_cold_by_name("position_ids", (decorator,), False)
    assert not is_cold_by_name("position_ids", ("decached",), False)


@pytest.mark.parametrize("word", sorted(vocabulary.EVALUATION_WORDS))
def test_one_list_says_what_evaluation_is(word: str) -> None:
    """By those left out a flag may say something else, and a function may be a test of the code."""
    ambiguous = {"test", "dev", "val", "valid"}
    is_flag = vocabulary.EVALUATION_FLAG.fullmatch(f"is_{word}") is not None
    assert is_flag == (word not in ambiguous | {"validate", "validation"})
    is_function = vocabulary.EVALUATES.match(f"{word}_epoch") is not None
    assert is_function == (word not in ambiguous | {"testing"})


@pytest.mark.parametrize("method", sorted(vocabulary.TRAINING_STEPS))
def test_what_an_engine_calls_is_called_from_outside(method: str) -> None:
    assert method in vocabulary.CALLED_FROM_OUTSIDE


@pytest.mark.parametrize("word", ["found_inf", "isfinite", "has_overflow", "nan_to_num"])
def test_what_speaks_of_infinities(word: str) -> None:
    assert vocabulary.INFINITIES.search(word)
    assert vocabulary.UNSCALES.search(word)
    assert not wishes_output(f"log_{word}")


@pytest.mark.parametrize(
    ("text", "is_idle"),
    [
        ("GradScaler('cpu')", True),
        ("GradScaler(enabled=False)", True),
        ("GradScaler(enabled = False)", True),
        ("GradScaler(False)", True),
        ("GradScaler(\n    torch.device(choose()).type,\n    enabled=False,\n)", True),
        ("GradScaler('cuda'), autocast(enabled=False)", False),
        ("GradScaler(enabled=Falsehood)", False),
    ],
)
def test_a_scaler_that_is_switched_off_is_idle_however_it_is_written(
    text: str, is_idle: bool
) -> None:
    assert (vocabulary.IDLE_SCALER.search(text) is not None) == is_idle
