"""The start of a process with gevent."""

from gevent import events

from gateway_project.speedups.libraries import attribute

SPEEDUPS = [
    # It reads the metadata of all installed packages for each module that it patches, and none of them listens.
    attribute(
        events, "notify_and_call_entry_points", events.notify, "0.8 s of a start", "test_only_gevent_listens_to_the_patching"
    )
]
