"""The rankings in the admin: the queue of unmapped names, the health of the sources, the published entries."""

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from kombu.exceptions import OperationalError as QueueUnavailable

from completions.models import LanguageModel
from gateway_project.activity import list_values, log
from gateway_project.activity.admin_pages import ReadOnlyAdmin, RecordedAdmin
from rankings import refresh, tasks
from rankings.identity import mapping, rules
from rankings.models import Alias, DailyRank, Entry, Profile, Publication, Snapshot, Source, SourceState, Standing
from rankings.publishing import health
from rankings.sources import registry

QUEUE_ROWS = 50


def _enqueue(request: HttpRequest, send: Callable[[], object]) -> None:
    """Send a task to Celery. If the queue is unavailable, warn: the hourly run does the same."""
    try:
        send()
    except QueueUnavailable:
        messages.warning(request, "The queue is unavailable. The rankings update within the hour.")


def _fetched_sources() -> list[Source]:
    return [spec.source for spec in registry.fetched_specs()]


class MappingForm(forms.Form):
    """A form of one click, which maps a name to this model, or to none of ours."""

    source = forms.ChoiceField(choices=lambda: [(source, source) for source in _fetched_sources()])
    key_kind = forms.CharField(max_length=20)
    external_key = forms.CharField(max_length=300, strip=False)
    model = forms.ModelChoiceField(LanguageModel.objects.all(), required=False)
    is_none_of_ours = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and bool(cleaned["model"]) == cleaned["is_none_of_ours"]:
            self.add_error("model", "Choose a model or select “none of ours”.")
        if not self.errors:
            snapshot = mapping.latest_snapshot(cleaned["source"])
            listed = Standing.objects.filter(key_kind=cleaned["key_kind"], external_key=cleaned["external_key"])
            if snapshot is None or not listed.filter(snapshot=snapshot).exists():
                self.add_error("external_key", "The source no longer lists this name.")
        return cleaned


@admin.register(Alias)
class AliasAdmin(RecordedAdmin):
    change_list_template = "admin/rankings/alias/change_list.html"
    own_pages = {"queue/": "queue"}
    list_display = ("external_key", "source", "key_kind", "meaning", "method", "confidence", "created_at")
    list_filter = ("source", "method", ("model", admin.EmptyFieldListFilter))
    list_select_related = ("model",)
    search_fields = ("external_key", "model__id", "model__name")
    ordering = ("source", "external_key")
    fields = ("source", "key_kind", "external_key", "model", "method", "confidence", "note", "created_at")

    def get_readonly_fields(self, request: HttpRequest, obj: Alias | None = None) -> tuple[str, ...]:
        made = ("method", "confidence", "created_at")
        return (*made, "source", "key_kind", "external_key") if obj else made

    meaning = list_values.column("meaning", attrgetter("model"), ordering="model", empty_value="none of ours")

    # An alias that staff change gets their method: neither the file nor a rule changes it again.

    def save_model(self, request: HttpRequest, obj: Alias, form: Any, change: bool) -> None:
        obj.method, obj.confidence = Alias.Method.STAFF, 1.0
        super().save_model(request, obj, form, change)
        self._republish(request)

    def delete_model(self, request: HttpRequest, obj: Alias) -> None:
        super().delete_model(request, obj)
        self._republish(request)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Alias]) -> None:
        super().delete_queryset(request, queryset)
        self._republish(request)

    def _republish(self, request: HttpRequest) -> None:
        transaction.on_commit(partial(_enqueue, request, tasks.republish.delay))

    def queue_view(self, request: HttpRequest) -> HttpResponse:
        """Show the names of the last snapshots that have no alias; on POST, map one."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if request.method == "POST":
            self._map(request)
            return redirect(request.get_full_path())
        chosen, searched = request.GET.get("source", ""), request.GET.get("q", "").strip()
        if chosen and chosen not in _fetched_sources():
            raise Http404
        waiting = _waiting([Source(chosen)] if chosen else _fetched_sources(), searched)
        return self.show_action(
            request,
            "admin/rankings/alias/queue.html",
            "Names without a model",
            None,
            page=Paginator(waiting, QUEUE_ROWS).get_page(request.GET.get("p")),
            sources=_fetched_sources(),
            chosen=chosen,
            searched=searched,
            model_ids=LanguageModel.objects.values_list("pk", flat=True),
        )

    def _map(self, request: HttpRequest) -> None:
        form = MappingForm(request.POST)
        if not form.is_valid():
            messages.error(request, " ".join(str(error) for errors in form.errors.values() for error in errors))
            return
        name, model = form.cleaned_data, form.cleaned_data["model"]
        text = f"“{name['external_key']}” means {model.pk if model else 'none of ours'}."
        with transaction.atomic():
            alias, _ = Alias.objects.update_or_create(
                **{column: name[column] for column in ("source", "key_kind", "external_key")},
                defaults={"model": model, "method": Alias.Method.STAFF, "confidence": 1.0},
            )
            log.record(request, log.Act.CHANGED, alias, text)
            self._republish(request)
        messages.success(request, text)


def _waiting(chosen: list[Source], searched: str) -> list[dict[str, Any]]:
    """Return the queue: names with suggestions of exact rules first, then by rank."""
    ours, found = mapping.own_models(), []
    for source in chosen:
        snapshot = mapping.latest_snapshot(source)
        for standing in mapping.unmatched(snapshot) if snapshot else []:
            if searched.casefold() in f"{standing.external_key} {standing.name} {standing.organization}".casefold():
                suggestions = rules.suggestions(standing, ours)
                order = (not suggestions, standing.rank, standing.external_key)
                found.append((order, {"source": source, "standing": standing, "suggestions": suggestions}))
    return [waiting for _, waiting in sorted(found, key=lambda pair: pair[0])]


@admin.register(Profile)
class ProfileAdmin(RecordedAdmin):
    """Profiles of the operator's own models can be changed; those of the curated file follow the file."""

    list_display = ("model", "open_weights", "hf_repo", "effort")
    list_select_related = ("model",)
    search_fields = ("model__id", "hf_repo")
    ordering = ("model",)

    def get_readonly_fields(self, request: HttpRequest, obj: Profile | None = None) -> tuple[str, ...]:
        return ("model",) if obj else ()

    def has_change_permission(self, request: HttpRequest, obj: Profile | None = None) -> bool:
        is_ours_to_change = obj is None or obj.pk not in mapping.curated_ids()
        return is_ours_to_change and super().has_change_permission(request, obj)


def _with_condition(states: Iterable[SourceState]) -> list[Any]:
    """Add the health and the waiting names of all sources at once, instead of for each row."""
    reasons = {each.source: each.reason for each in health.report()}
    waiting = mapping.count_unmatched()
    found: list[Any] = list(states)
    for state in found:
        state.reason, state.names_waiting = reasons[state.source], waiting.get(state.source, 0)
    return found


@admin.register(SourceState)
class SourceStateAdmin(ReadOnlyAdmin):
    list_display = ("source", "condition", "last_success_at", "last_attempt_at", "next_attempt_at", "failures", "waiting")
    fields = (
        *("source", "condition", "error", "failures", "is_refused"),
        *("last_success_at", "last_attempt_at", "next_attempt_at", "waiting"),
    )
    ordering = ("source",)
    actions = ("refresh_now",)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        found.result_list = _with_condition(found.result_list)
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        state = super().get_object(request, object_id, from_field)
        return None if state is None else _with_condition([state])[0]

    condition = list_values.column(
        "health", lambda state: state.reason or (f"healthy, but {state.error}" if state.error else "healthy")
    )
    waiting = list_values.column("names without a model", attrgetter("names_waiting"))

    def has_refresh_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("rankings.change_sourcestate"))

    @admin.action(description="Refresh now", permissions=["refresh"])
    def refresh_now(self, request: HttpRequest, queryset: QuerySet[SourceState]) -> None:
        for state in queryset:
            if obstacle := registry.spec(state.source).access().obstacle:
                messages.warning(request, f"{state.source} is off: {obstacle}.")
                continue
            _enqueue(request, partial(tasks.refresh.delay, state.source))
            messages.success(request, f"{state.source} is being refreshed.")


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    list_display = ("source", "as_of", "taken_at", "version", "standings_count", "listing", "held_because")
    list_filter = ("source", ("held_because", admin.EmptyFieldListFilter))
    fields = (
        *("source", "as_of", "taken_at", "version", "fingerprint", "attribution", "listing"),
        *("boards", "notes", "held_because"),
    )
    ordering = ("-id",)
    actions = ("publish_held",)

    def has_release_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("rankings.change_snapshot"))

    @admin.action(description="Publish although held back", permissions=["release"])
    def publish_held(self, request: HttpRequest, queryset: QuerySet[Snapshot]) -> None:
        for snapshot in queryset:
            with transaction.atomic():
                if not refresh.release(snapshot):
                    messages.warning(request, f"{snapshot} was not held back.")
                    continue
                text = f"Published {snapshot}, which was held back: {snapshot.held_because}."
                log.record(request, log.Act.CHANGED, snapshot, text, before={"held_because": snapshot.held_because})
            transaction.on_commit(partial(_enqueue, request, tasks.republish.delay))
            messages.success(request, text)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Snapshot]:
        queryset: QuerySet[Snapshot] = super().get_queryset(request).annotate(count=Count("standings"))
        return queryset

    standings_count = list_values.column("standings", attrgetter("count"))

    @admin.display(description="list")
    def listing(self, snapshot: Snapshot) -> str:
        address = reverse("admin:rankings_standing_changelist")
        return format_html('<a href="{}?snapshot__id__exact={}">standings</a>', address, snapshot.pk)


@admin.register(Standing)
class StandingAdmin(ReadOnlyAdmin):
    list_display = ("external_key", "name", "organization", "board", "rank", "value", "snapshot")
    list_filter = ("board", "snapshot__source")
    list_select_related = ("snapshot",)
    search_fields = ("external_key", "name")
    fields = ("snapshot", "board", "rank", "value", "external_key", "key_kind", "name", "organization", "facts")
    ordering = ("-snapshot", "board", "rank")

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        return lookup == "snapshot__id__exact" or super().lookup_allowed(lookup, value, request)


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    """Read-only. The field ``inputs`` holds what each score was computed from."""

    list_display = ("model", "source", "board", "rank", "board_rank", "change", "overall", "confidence", "last_updated")
    list_filter = ("source", "board")
    list_select_related = ("model",)
    search_fields = ("model__id", "model__name")
    ordering = ("source", "board", "board_rank")


@admin.register(DailyRank)
class DailyRankAdmin(ReadOnlyAdmin):
    list_display = ("model", "day", "source", "board", "rank", "overall")
    list_filter = ("source", "board")
    list_select_related = ("model",)
    search_fields = ("model__id", "model__name")
    ordering = ("-day", "source", "board", "rank")


@admin.register(Publication)
class PublicationAdmin(ReadOnlyAdmin):
    list_display = ("number", "changed_at")
