"""Parts that the admin pages of both apps share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

Row = TypeVar("Row", bound=Model)

if TYPE_CHECKING:

    class Admin(admin.ModelAdmin[Row]):
        """A ModelAdmin that knows its model's type."""

    class Inline(admin.TabularInline[Any, Row]):
        """A TabularInline that knows its parent's type."""

else:  # Django's classes cannot be subscripted at run time

    class Admin(admin.ModelAdmin, Generic[Row]):
        pass

    class Inline(admin.TabularInline, Generic[Row]):
        pass


class ReadOnlyAdmin(Admin[Row]):
    """Rows that only the engine or the interview itself writes: people look, nobody edits."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Row | None = None) -> bool:
        return False


class ReadOnlyInline(Inline[Row]):
    """Rows below their parent, to look at."""

    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
