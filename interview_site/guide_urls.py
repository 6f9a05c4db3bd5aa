"""Every address of an installation in guide mode: the fault injection API, and nothing of the interviews' site."""

from django.urls import include, path, re_path

from faults.api.injection import health
from faults.api.problems import not_found
from faults.api.urls import injection_urls

urlpatterns = [
    path("health", health, name="health"),
    path("api/v1/", include((injection_urls(staff_only=False), "fault-injection"))),
    re_path(r"^(?P<path>.*)$", not_found),
]
