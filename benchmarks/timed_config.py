"""A Serve config whose engine only takes its time (`timed_app.py`), with the stages that every answer
takes."""

from collections.abc import Collection

from benchmarks.served_application import Config

_APP = "benchmarks.timed_app:build_app"
_OPTIONAL = {"compact": ("CompactGraph", "AtomicQARetriever", "HopReader"), "explain": ("ExplainGraph",)}


def with_timed_engine(config: Config, keep: Collection[str] = ()) -> Config:
    """The config, changed so; `compact` and `explain` are left out, unless they are to be kept."""
    (application,) = config["applications"]
    application["import_path"] = _APP
    for setting, names in _OPTIONAL.items():
        if setting in keep:
            continue
        application["args"].pop(setting, None)
        application["deployments"] = [
            deployment for deployment in application["deployments"] if deployment["name"] not in names
        ]
    return config
