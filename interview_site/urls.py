"""Every address of the site. The apps own their own; this only assembles them."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path
from django.views.generic import RedirectView

from faults.api.urls import injection_urls
from interview_site import views
from sessions.api import api
from sessions.views.login import LoginView

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("admin/login/", RedirectView.as_view(pattern_name="login", query_string=True)),  # one door, one limit
    path("admin/", admin.site.urls),
    path("login/", LoginView.as_view(), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("api/v1/", include((injection_urls(staff_only=True), "fault-injection"))),
    path("api/", api.urls),
    path("", include("sessions.urls")),
]
handler500 = views.server_error
