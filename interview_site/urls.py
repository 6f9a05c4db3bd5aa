"""Every address of the site. The apps own their own; this only assembles them."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path

from interview_site import views
from sessions.api import api

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("admin/", admin.site.urls),
    path("login/", auth_views.LoginView.as_view(template_name="login.html"), name="login"),
    path("logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("api/", api.urls),
    path("", include("sessions.urls")),
]
