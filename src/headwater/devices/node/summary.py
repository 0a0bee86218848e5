"""What a node with these settings would do, in words."""

from __future__ import annotations

from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.node.models import metric_of, problem_of
from headwater.devices.settings import NodeSettings
from headwater.devices.settings.sources import CsvSettings
from headwater.devices.sources import source_of
from headwater.devices.sources.recording import Recording, RoundReplay
from headwater.files import check_folder


def summary(settings: NodeSettings) -> str:
    """Try everything that can be tried without touching the memory, and say what there is."""
    check_folder("folder", settings.folder)
    mapping = SampleMapping(settings.samples, settings.limits.message_bytes)
    problem = problem_of(mapping.schema, settings.model)
    metric_of(settings.model)
    source_of(settings)
    replay = RoundReplay.of(settings.source, mapping, settings.m, settings.seed)
    rule = settings.memory.make()
    schema = mapping.schema
    labels = f"{schema.label_type} from {schema.low} to {schema.high}"
    lines = [
        ("client", f"{settings.client}, number {settings.m} in keyed draws, seed {settings.seed}"),
        (
            "memory",
            f"{rule} in {settings.folder / 'memory.db'}, survives {settings.memory.survives}",
        ),
        ("samples", f"features {schema.features} {schema.feature_type}, label {labels}"),
        ("model", f"{type(problem.model).__name__}, {problem.size} parameters"),
        ("source", _source(settings, replay)),
        ("socket", str(settings.socket_path)),
        ("metrics", _metrics(settings)),
    ]
    if settings.test is not None:
        count = len(Recording.read(settings.test.csv, mapping).batch)
        lines.append(("test", f"{count} samples of {settings.test.csv}"))
    return "\n".join(f"{name:8} {value}" for name, value in lines)


def _source(settings: NodeSettings, replay: RoundReplay | None) -> str:
    source = settings.source
    if source is None:
        return "none: the memory stays as it is"
    if replay is not None and isinstance(source, CsvSettings):
        return f"{source.path} by rounds: {replay.declared}, {len(replay.wrong)} rows not usable"
    words = source.model_dump(exclude_none=True, exclude={"kind"})
    return source.kind + ": " + ", ".join(f"{name} {value}" for name, value in words.items())


def _metrics(settings: NodeSettings) -> str:
    metrics = settings.metrics
    return "off" if metrics.port is None else f"http://{metrics.address}:{metrics.port}/metrics"
