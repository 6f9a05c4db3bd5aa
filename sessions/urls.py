"""Addresses of the interview pages."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from sessions.views import (
    assessment,
    builder,
    candidate,
    conduct,
    gpu_faults,
    join,
    panel,
    panic,
    parts,
    session_action,
    session_detail,
    session_list,
    session_new,
    styleguide,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", session_list.session_list, name="session-list"),
    path("sessions/new/", session_new.session_new, name="session-new"),
    path("plans/new/", builder.plan_new, name="plan-new"),
    path("plans/<uuid:uuid>/", builder.plan_edit, name="plan-edit"),
    path("catalogue/<slug:ref>/", builder.preview, name="catalogue-preview"),
    path("sessions/<uuid:uuid>/", session_detail.session_detail, name="session-detail"),
    path("sessions/<uuid:uuid>/join-link/", session_action.session_join_link, name="session-join-link"),
    path("sessions/<uuid:uuid>/credit/", session_action.session_credit, name="session-credit"),
    path("sessions/<uuid:uuid>/panels/<slug:name>/", panel.session_panel, name="session-panel"),
    path("sessions/<uuid:uuid>/key/", panel.session_key, name="session-key"),
    path("sessions/<uuid:uuid>/metrics/", panel.session_metrics, name="session-metrics"),
    path("sessions/<uuid:uuid>/tools/", conduct.session_tools, name="session-tools"),
    path("sessions/<uuid:uuid>/faults/", gpu_faults.session_faults, name="session-faults"),
    path("sessions/<uuid:uuid>/faults/<slug:fault>/checks/", gpu_faults.fault_checks, name="session-fault-checks"),
    path("sessions/<uuid:uuid>/faults/<slug:fault>/recover/", gpu_faults.recover_fault, name="session-fault-recover"),
    path("sessions/<uuid:uuid>/notes/", conduct.add_note, name="session-note"),
    path("sessions/<uuid:uuid>/assessment/", assessment.save_assessment, name="session-assessment"),
    path("sessions/<uuid:uuid>/assessment/review/", assessment.review_assessment, name="session-assessment-review"),
    path("sessions/<uuid:uuid>/assessment/revise/", assessment.revise_assessment, name="session-assessment-revise"),
    path(
        "sessions/<uuid:uuid>/scenarios/<uuid:scenario>/hints/<int:index>/", conduct.release_hint, name="session-hint"
    ),
    path(
        "sessions/<uuid:uuid>/scenarios/<uuid:scenario>/milestones/",
        conduct.mark_milestone,
        name="session-milestone",
    ),
    path(
        "sessions/<uuid:uuid>/scenarios/<uuid:scenario>/ratings/<slug:criterion>/",
        conduct.save_rating,
        name="session-rating",
    ),
    path(
        "sessions/<uuid:uuid>/parts/<int:part>/ratings/<slug:criterion>/",
        conduct.save_part_rating,
        name="session-part-rating",
    ),
    path("sessions/<uuid:uuid>/parts/<int:part>/<slug:action>/", parts.part_action, name="session-part"),
    path(
        "sessions/<uuid:uuid>/ratings/<slug:criterion>/",
        conduct.save_interview_rating,
        name="session-interview-rating",
    ),
    path("sessions/<uuid:uuid>/questions/<uuid:question>/asked/", conduct.mark_asked, name="session-question-asked"),
    path(
        "sessions/<uuid:uuid>/questions/<uuid:question>/answer/", conduct.save_answer, name="session-question-answer"
    ),
    path("panic/", panic.panic_page, name="panic"),
    path("join/<str:token>/", join.join, name="join"),
    path("c/<uuid:uuid>/", candidate.candidate_page, name="candidate-page"),
    path("c/<uuid:uuid>/kubeconfig/", candidate.candidate_kubeconfig, name="candidate-kubeconfig"),
    path("c/<uuid:uuid>/code/", candidate.candidate_code, name="candidate-code"),
    path("c/<uuid:uuid>/panels/<slug:name>/", panel.candidate_panel, name="candidate-panel"),
]
if settings.DEBUG:
    urlpatterns.append(path("styleguide/", styleguide.styleguide, name="styleguide"))
urlpatterns.append(path("", include("sessions.scorecard_urls")))
# Last, since it takes any word: the others under a session's address come first.
urlpatterns.append(path("sessions/<uuid:uuid>/<slug:action>/", session_action.session_action, name="session-action"))
