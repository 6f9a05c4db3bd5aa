"""Signing in, for pages and for the admin alike: one place to guess passwords at, and a slow one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpResponse

from sessions import limits


class LoginForm(AuthenticationForm):
    """Asks for leave before it compares a password. ``wait_s`` is set where that was refused."""

    wait_s = 0

    def clean(self) -> dict[str, Any]:
        """Count the attempt against the account and the address; a right password wipes both slates."""
        if not (self.cleaned_data.get("username") and self.cleaned_data.get("password")):
            return super().clean()
        assert self.request is not None  # LoginView hands it in
        tries = [
            (limits.SIGN_IN_ADDRESS, limits.address(self.request)),
            (limits.SIGN_IN_ACCOUNT, limits.account(self.cleaned_data["username"])),
        ]
        for limit, who in tries:
            if wait := limits.attempt(limit, who):
                self.wait_s = wait
                raise ValidationError(f"Too many attempts. Wait {wait} seconds, then try again.", code="limited")
        cleaned = super().clean()
        for limit, who in tries:
            limits.forgive(limit, who)
        return cleaned


class LoginView(auth_views.LoginView):
    """The sign-in page."""

    template_name = "login.html"
    authentication_form = LoginForm

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Show what is wrong; 429 where it came too often."""
        response = super().form_invalid(form)
        if isinstance(form, LoginForm) and form.wait_s:
            response.status_code = 429
            response.headers["Retry-After"] = str(form.wait_s)
        return response
