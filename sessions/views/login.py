"""Signing in, for pages and for the admin alike: one place to guess passwords at, and a slow one."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth import views as auth_views
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpResponse

from sessions import known_browsers, limits

log = logging.getLogger(__name__)


class LoginForm(AuthenticationForm):
    """Asks for leave before it compares a password. ``wait_s`` is set where that was refused."""

    wait_s = 0

    def clean(self) -> dict[str, Any]:
        """Count the attempt; a right password wipes the account's slate."""
        if not (self.cleaned_data.get("username") and self.cleaned_data.get("password")):
            return super().clean()
        tries = self._ask_leave()
        try:
            cleaned = super().clean()
        except ValidationError:
            self._report_guessing()
            raise
        for limit, who in tries:
            if limit is limits.SIGN_IN_ADDRESS:
                limits.take_back(limit, who)  # one account of one's own buys no guesses at others
            else:
                limits.forgive(limit, who)
        return cleaned

    @property
    def account(self) -> str:
        """Return the account that is asked for."""
        return limits.account(self.cleaned_data["username"])

    def _ask_leave(self) -> list[tuple[limits.Limit, str]]:
        """Return what the attempt was counted against. Raises ValidationError where it must wait.

        A browser that the account knows has its own count; past it, it is a stranger like any other.
        """
        assert self.request is not None  # LoginView hands it in
        device = known_browsers.device_of(self.request, self.account)
        if device and not limits.attempt(limits.SIGN_IN_DEVICE, device):
            return [(limits.SIGN_IN_DEVICE, device)]
        tries = [
            (limits.SIGN_IN_ADDRESS, limits.address(self.request)),
            (limits.SIGN_IN_ACCOUNT, f"{limits.network(self.request)} {self.account}"),
        ]
        for limit, who in tries:
            if wait := limits.attempt(limit, who):
                self.wait_s = wait
                raise ValidationError(f"Too many attempts. Wait {wait} seconds, then try again.", code="limited")
        return tries

    def _report_guessing(self) -> None:
        """Tell the operator, once in a while, of an account whose password is being guessed from many places."""
        if limits.attempt(limits.GUESSES_TO_REPORT, self.account):
            log.warning("More than %d wrong passwords in an hour for one account.", limits.GUESSES_TO_REPORT.count)
            limits.forgive(limits.GUESSES_TO_REPORT, self.account)


class LoginView(auth_views.LoginView):
    """The sign-in page."""

    template_name = "login.html"
    authentication_form = LoginForm

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in, and know this browser from now on."""
        response = super().form_valid(form)
        known_browsers.remember(self.request, response, limits.account(form.get_user().get_username()))
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Show what is wrong; 429 where it came too often."""
        response = super().form_invalid(form)
        if isinstance(form, LoginForm) and form.wait_s:
            response.status_code = 429
            response.headers["Retry-After"] = str(form.wait_s)
        return response
