"""What is replaced in gevent changes nothing but the time that a start takes."""

from importlib.metadata import entry_points

from gevent import events


def test_only_gevent_listens_to_the_patching():
    """It looks at the arguments of ``patch_all``. gunicorn's worker gives none."""
    kinds = [kind for kind in vars(events).values() if hasattr(kind, "ENTRY_POINT_NAME")]
    assert len(kinds) > 5
    listeners = [point.value for kind in kinds for point in entry_points(group=kind.ENTRY_POINT_NAME)]
    assert listeners == ["gevent.monkey:_subscribe_signal_os"]
