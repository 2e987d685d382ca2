"""The part of an HTML report that shows one step of the program: a picture, the events in their
order, and the dtypes of modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from amplint.output.formats import Report
from amplint.output.html_page import Section, escape
from amplint.util.wording import counted
from amplint_verify.observing.folding import (
    EventGroup,
    FoldedBlock,
    blocks_of,
    groups_of,
    modules_alike,
)
from amplint_verify.observing.step_picture import picture
from amplint_verify.recording.events import Event, EventKind, ModuleDtypes, Timeline
from amplint_verify.recording.observation import Observation, Wait
from amplint_verify.recording.sightings import ModulePath

MOST_EVENTS = 1000  # on the page, after what repeats is folded: some twenty screens
MOST_MODULES = 300
UNFOLDED = 60  # rows, up to which a list stands open
NAMED = 3  # modules that are named where events come again in many
STYLE = """
.step figure { overflow-x: auto }
.step svg { width: 100%; min-width: 44rem; height: auto }
.step { margin: 1em 0; overflow-x: auto }
.step text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.step line { stroke: var(--line) }
.step .region { fill: var(--mark); stroke: var(--line) }
.step .module { fill: var(--code); stroke: var(--line) }
.step .mark { fill: var(--after) }
.events, .events ol { list-style: none; padding-left: 0 }
.events > li { border-left: 3px solid var(--line); margin: .5em 0; padding-left: .8em }
.events h4 { margin: 0; font-size: 1em; overflow-wrap: anywhere }
.events ol ol li { padding: .1em 0 .1em 1em }
.events .half { box-shadow: inset 3px 0 var(--mark) }
.dtypes { border-collapse: collapse; display: block; overflow-x: auto; margin: .6em 0 }
.dtypes caption { text-align: left }
.dtypes th, .dtypes td { border: 1px solid var(--line); padding: .2em .6em; text-align: left;
                         vertical-align: top; overflow-wrap: anywhere }
.dtypes th { font-weight: 600 }
"""
NO_TIMES: Mapping[str, str] = {
    "sim": "There are no times: sim computes nothing. Only the order matters.",
    "cuda": "Times are not shown. Only the order matters.",
}
ON_THE_CPU = "There are no times: those of a CPU say nothing about a GPU. Only the order matters."
LABELS: Mapping[EventKind, str] = {
    EventKind.CALL: "call",
    EventKind.REGION_ON: "region",
    EventKind.REGION_OFF: "region",
    EventKind.CAST: "cast by autocast",
    EventKind.OWN_CAST: "cast by the program",
    EventKind.GRADIENT_CAST: "cast in the backward pass",
    EventKind.WAIT: "wait",
    EventKind.SCALE: "scaler",
    EventKind.BACKWARD: "backward",
    EventKind.UNSCALE: "scaler",
    EventKind.CLIP: "clip",
    EventKind.SCALER_STEP: "scaler",
    EventKind.STEP: "optimizer",
    EventKind.UPDATE: "scaler",
    EventKind.ZERO_GRAD: "optimizer",
}
WAITS: Mapping[Wait, str] = {
    Wait.SCALAR_READ: "for a value on the device",
    Wait.SHAPE_READ: "for the shape of a result",
    Wait.BOOL_INDEX: "for the number of elements that a mask selects",
    Wait.TO_HOST: "for a copy from the device",
    Wait.TO_DEVICE: "for a copy to the device",
    Wait.SYNCHRONIZE: "for all queued work of the device",
    Wait.EMPTY_CACHE: "for the device, whose cached memory is released",
}


def lead(observation: Observation) -> Callable[[Report], Section]:
    """The maker of the part that stands above the findings."""
    return lambda report: Section("\n".join(parts(observation, report)), STYLE)


def parts(observation: Observation, report: Report) -> Iterator[str]:
    timeline = observation.timeline or Timeline()
    yield f'<h2 id="step">{escape(title(timeline))}</h2>'
    yield paragraph(f"As it ran on {observation.backend}. {about(timeline, observation)}")
    if not timeline.events and not timeline.modules:
        yield paragraph("The run showed nothing for this section.")
        return
    if timeline.events:
        yield picture(timeline.events)
        yield from listed(timeline, report)
    if timeline.modules:
        yield from table(timeline)


def title(timeline: Timeline) -> str:
    if timeline.made < timeline.first:
        return "What ran"
    if timeline.made == timeline.first:
        return f"Step {timeline.first:,}, from its first line to its last"
    return f"Steps {timeline.first:,} to {timeline.made:,}"


def about(timeline: Timeline, observation: Observation) -> str:
    """Sentences that a reader of the step needs."""
    sentences = []
    if timeline.made < timeline.first:
        sentences.append("No optimizer made a step, so this begins with the program.")
    elif timeline.first == 1:
        sentences.append("The events before and after it are shown too.")
    if timeline.made > timeline.first:
        sentences.append("No line ran twice, so single steps cannot be distinguished.")
    return " ".join([*sentences, NO_TIMES.get(observation.backend, ON_THE_CPU)])


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def folded(identity: str, summary: str, rows: int, content: str) -> str:
    """A part of the page that can be folded, and is where it is long."""
    is_open = " open" if rows <= UNFOLDED else ""
    return (
        f'<details id="{identity}"{is_open}><summary>{escape(summary)}</summary>{content}</details>'
    )


# ------------------------------------------------------------------------------- events


def listed(timeline: Timeline, report: Report) -> Iterator[str]:
    """The events by module, those of modules that are alike once."""
    shown_in = ShownPage(report, first_findings(report), has_several_roots(timeline))
    entries, rows, hidden = [], 0, timeline.left_out
    for block in blocks_of(groups_of(timeline.events)):
        own = sum(len(group.events) for group in block.groups)
        if rows + own > MOST_EVENTS and rows:
            hidden += own * (1 + len(block.again))
            continue
        rows += own
        entries.append(f"<li>{in_block(block, shown_in)}</li>")
    content = f'<ol class="events">{"".join(entries)}</ol>'
    if hidden:
        content += paragraph(f"{counted(hidden, 'more event')} left out: a page holds no more.")
    yield folded("events", f"The events in their order ({counted(rows, 'row')})", rows, content)


def first_findings(report: Report) -> dict[tuple[str, int], tuple[int, str]]:
    """The number and the code of the first finding at a line."""
    by_line: dict[tuple[str, int], tuple[int, str]] = {}
    for number, finding in enumerate(report.outcome.findings, 1):
        by_line.setdefault((finding.path, finding.span.start.row), (number, finding.code))
    return by_line


@dataclass(frozen=True)
class ShownPage:
    """The page that events stand on.

    Args:
        links: the number and the code of a finding, by its line.
        has_several_roots: whether a module's path alone could be that of another.
    """

    report: Report
    links: Mapping[tuple[str, int], tuple[int, str]]
    has_several_roots: bool


def has_several_roots(timeline: Timeline) -> bool:
    return len({each.module.root for each in timeline.modules if each.module.path}) > 1


def in_block(block: FoldedBlock, page: ShownPage) -> str:
    groups = "".join(in_group(group, page) for group in block.groups)
    return f"<ol>{groups}</ol>{again(block)}"


def again(block: FoldedBlock) -> str:
    """Ex) The same 3 more times: in `layers.1`, `layers.2`, `layers.3`."""
    if not block.again:
        return ""
    names = list(dict.fromkeys(filter(None, block.again)))
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], "…", names[-1]]
    where = ", ".join(map(code, names))
    sentence = f"The same {counted(len(block.again), 'more time')}"
    return f'<p class="quiet">{sentence}{": in " + where if where else ""}.</p>'


def in_group(group: EventGroup, page: ShownPage) -> str:
    events = "".join(in_event(event, page) for event in group.events)
    return f"<li><h4>{heading(group.module, page.has_several_roots)}</h4><ol>{events}</ol></li>"


def heading(module: ModulePath | None, has_several_roots: bool) -> str:
    if module is None:
        return "outside of modules"
    kind = f" ({escape(module.kind)})" if module.path else ""
    return f"{named(module, module.path, has_several_roots)}{kind}"


def named(module: ModulePath, path: str, has_several_roots: bool) -> str:
    """A module by a path; a root by its class."""
    if not path:
        return code(module.root)
    return f"{code(path)} of {code(module.root)}" if has_several_roots else code(path)


def in_event(event: Event, page: ShownPage) -> str:
    label = LABELS[event.kind]
    if event.kind is EventKind.OWN_CAST and not event.direct:
        label = "cast by a library"
    words = [text_of(event)]
    if event.kind is EventKind.WAIT and not event.direct:
        words.append("in a library")
    if event.count > 1:
        words.append(f"{event.count:,} times")
    if event.size >= 1e5:
        words.append(f"{event.size / 1e6:,.1f} MB")
    number, rule = page.links.get((event.path, event.row), (0, ""))
    link = f' <a href="#f{number}">{escape(rule)}</a>' if number else ""
    path = page.report.path(event.path)
    place = f"{path}:{event.row}" if event.path else "in no line of the project"
    half = ' class="half"' if event.region else ""
    return (
        f'<li{half}><span class="tag">{label}</span> {", ".join(words)} '
        f'<span class="place">{escape(place)}</span>{link}</li>'
    )


def text_of(event: Event) -> str:
    """An event in words, as HTML."""
    detail, function = escape(event.detail), code(event.asked) if event.asked else ""
    in_region = f"in a region of {escape(event.region)}" if event.region else ""
    match event.kind:
        case EventKind.CALL:
            return f"with {detail}" if detail else "without tensors"
        case EventKind.REGION_ON:
            return f"autocast to {detail} begins" if detail else "autocast is switched off"
        case EventKind.REGION_OFF:
            return f"autocast to {detail} ends" if detail else "the end of where it is off"
        case EventKind.CAST | EventKind.OWN_CAST:
            return f"{detail} for {function}" if function else detail
        case EventKind.GRADIENT_CAST:
            return detail
        case EventKind.WAIT:
            waits = WAITS[Wait(event.detail)]
            return f"{function} waits {waits}" if function else waits
        case EventKind.BACKWARD:
            return f"the backward pass {in_region}".strip()
        case EventKind.CLIP:
            return "gradients are clipped"
        case EventKind.ZERO_GRAD:
            return code(f"{event.detail}.zero_grad()")
        case EventKind.STEP:
            return f"{code(f'{event.detail}.step()')} {in_region}".strip()
    calls = {EventKind.SCALE: "scale", EventKind.UNSCALE: "unscale_", EventKind.UPDATE: "update"}
    return code(f"{calls.get(event.kind, 'step')}({event.detail})")


def code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


# ------------------------------------------------------------------------------- dtypes


def table(timeline: Timeline) -> Iterator[str]:
    """The dtypes of modules, those that are alike in one row."""
    rows = list(modules_alike(timeline.modules))
    several = has_several_roots(timeline)
    heads = ("module", "class", "inputs", "outputs", "own parameters", "calls", *CASTS)
    head = "".join(f'<th scope="col">{each}</th>' for each in heads)
    body = "".join(in_row(*row, several) for row in rows[:MOST_MODULES])
    content = (
        '<table class="dtypes"><caption>Of several modules in one row, the numbers are those of '
        f"each.</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    hidden = sum(count for _, count, _ in rows[MOST_MODULES:]) + timeline.modules_left_out
    if hidden:
        content += paragraph(f"{counted(hidden, 'more module')} left out: a page holds no more.")
    summary = f"Dtypes by module ({counted(len(timeline.modules), 'module')})"
    yield folded("dtypes", summary, len(rows), content)


CASTS = ("casts by autocast", "casts by the program")


def in_row(path: str, count: int, module: ModuleDtypes, has_several_roots: bool) -> str:
    name = named(module.module, path, has_several_roots)
    several = f" ({count:,} modules)" if count > 1 else ""
    cells: Sequence[str] = (
        escape(module.module.kind),
        dtypes(module.inputs),
        dtypes(module.outputs),
        dtypes(module.parameters),
        f"{module.calls:,}",
        f"{module.casts:,}",
        f"{module.own_casts:,}",
    )
    rest = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{name}{several}</th>{rest}</tr>'


def dtypes(names: Iterable[str]) -> str:
    return escape(", ".join(names)) or "none"
