"""Pages of the admin for what has no table: a list with filters, search and actions, and a page for each row.

They are reached like the pages of any model, and need its permissions; every act leaves a line in the
admin's log.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlencode

from duly.django.panels import Ask, Panel
from duly.jobs import Acted

_admin: Any = importlib.import_module("django.contrib.admin")
_utils: Any = importlib.import_module("django.contrib.admin.utils")
_log: Any = importlib.import_module("django.contrib.admin.models")
_types: Any = importlib.import_module("django.contrib.contenttypes.models")
_exceptions: Any = importlib.import_module("django.core.exceptions")
_http: Any = importlib.import_module("django.http")
_urls: Any = importlib.import_module("django.urls")
_response: Any = importlib.import_module("django.template.response")
_decorators: Any = importlib.import_module("django.utils.decorators")
_csrf: Any = importlib.import_module("django.views.decorators.csrf")
messages: Any = importlib.import_module("django.contrib.messages")

F = TypeVar("F", bound=Callable[..., Any])

ModelAdmin: Any = _admin.ModelAdmin


def protected(view: F) -> F:
    """A form of another site is refused."""
    made: F = _decorators.method_decorator(_csrf.csrf_protect)(view)
    return made


ACTS = 20
"""Lines of the admin's log that a page shows."""


class Door(ModelAdmin):  # type: ignore[misc]
    """A panel of the engine in place of a table."""

    panel: ClassVar[Panel]

    def has_add_permission(self, request: Any) -> bool:
        """Nothing is made here."""
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        """Nothing is deleted here."""
        return False

    def get_urls(self) -> list[Any]:
        """The list, and a page for each row."""
        name = f"duly_{self.opts.model_name}"
        view = self.admin_site.admin_view
        return [
            _urls.path("", view(self.changelist_view), name=f"{name}_changelist"),
            _urls.path("<path:object_id>/change/", view(self.change_view), name=f"{name}_change"),
        ]

    @protected
    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """The list; a POST is an action on selected rows."""
        if not self.has_view_permission(request):
            raise _exceptions.PermissionDenied
        if request.method == "POST":
            return self._act(request, request.POST.getlist("_selected_action"))
        return self._rendered(request, "rows", self._list_words(request))

    @protected
    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        """All about one row; a POST is an action on it."""
        if not self.has_view_permission(request):
            raise _exceptions.PermissionDenied
        row_id = _utils.unquote(object_id)
        if request.method == "POST":
            return self._act(request, [row_id])
        details = self.panel.details(row_id)
        if details is None:
            messages.warning(request, f"{row_id} is not there any more.")
            return _http.HttpResponseRedirect(self._list_url())
        words = {
            "details": details,
            "row_id": row_id,
            "acts": self._acts(row_id),
            "list_url": self._list_url(),
        }
        return self._rendered(request, "row", words)

    # acting

    def _act(self, request: Any, ids: Sequence[str]) -> Any:
        if not self.has_change_permission(request):
            raise _exceptions.PermissionDenied
        action = request.POST.get("action", "")
        if action not in self.panel.actions:
            raise _exceptions.BadRequest(f"There is no action {action!r}.")
        done = self.panel.act(action, ids, request.user.get_username())
        note(request, self.model, done.changed, self.panel.actions[action])
        tell(request, self.panel.actions[action], done)
        return _http.HttpResponseRedirect(request.get_full_path())

    def _acts(self, row_id: str) -> Any:
        kind = _types.ContentType.objects.get_for_model(self.model)
        return _log.LogEntry.objects.filter(content_type=kind, object_id=row_id)[:ACTS]

    # showing

    def _list_words(self, request: Any) -> dict[str, Any]:
        choices = self.panel.choices()
        given = {word: request.GET[word] for word in choices if request.GET.get(word)}
        before = request.GET.get("before", "")
        search = request.GET.get("q", "").strip()
        ask = Ask(search=search, filters=given, before=int(before) if before.isdecimal() else None)
        listing = self.panel.listing(ask)
        rows = [(row.id, _utils.quote(row.id), row.cells) for row in listing.rows]
        older = "" if listing.older is None else _query({**given, "q": search, "before": str(listing.older)})
        return {
            "rows": rows,
            "columns": self.panel.columns,
            "filters": list(_filters(choices, given, search)),
            "search": search,
            "older": older,
        }

    def _rendered(self, request: Any, template: str, words: Mapping[str, Any]) -> Any:
        may_act = self.has_change_permission(request)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": str(self.opts.verbose_name_plural).capitalize(),
            "actions": list(self.panel.actions.items()) if may_act else [],
            **words,
        }
        return _response.TemplateResponse(request, f"admin/duly/{template}.html", context)

    def _list_url(self) -> str:
        return str(_urls.reverse(f"{self.admin_site.name}:duly_{self.opts.model_name}_changelist"))


def _filters(
    choices: Mapping[str, Sequence[str]], given: Mapping[str, str], search: str
) -> Iterable[tuple[str, list[tuple[str, str, bool]]]]:
    """For each filter its choices: how it is called, the query that sets it, and whether it is set."""
    for word, values in choices.items():
        others = {name: value for name, value in given.items() if name != word} | {"q": search}
        links = [(value, _query({**others, word: value}), given.get(word) == value) for value in values]
        yield word, [("all", _query(others), word not in given), *links]


def _query(words: Mapping[str, str]) -> str:
    return "?" + urlencode({name: value for name, value in words.items() if value})


def note(request: Any, model: Any, ids: Iterable[str], what: str) -> None:
    """Who did what to which row, in the admin's log."""
    kind = _types.ContentType.objects.get_for_model(model)
    for one in ids:
        _log.LogEntry.objects.create(
            user_id=request.user.pk,
            content_type_id=kind.pk,
            object_id=one,
            object_repr=one[:200],
            action_flag=_log.CHANGE,
            change_message=what,
        )


def tell(request: Any, what: str, done: Acted) -> None:
    """How many, and why not the others."""
    if done.changed:
        messages.success(request, f"{what}: {len(done.changed)}.")
    for one, reason in done.refused.items():
        messages.warning(request, f"{one}: {reason}")
