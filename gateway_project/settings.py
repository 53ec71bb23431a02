"""The settings of the gateway. Those of ranking sources and of the ranking formula stand beside the code that uses them.

Values come from environment variables through typed readers, which raise an error for an invalid value. A missing secret fails
a system check (``gateway_project.checks``). Only on a developer's machine are missing ones generated, into GATEWAY_VAR: there
GATEWAY_DEVELOPMENT is set by ``gateway_project.local``.
"""

import os
from datetime import time
from pathlib import Path
from typing import Any

from gateway_project import environment, installation, logs
from gateway_project.db import pool

# --- Directories and mode ----------------------------------------------------------------------------------------

BASE_DIR = installation.CODE
GATEWAY_VAR = installation.var(os.environ)
GATEWAY_DEVELOPMENT = environment.boolean("GATEWAY_DEVELOPMENT", default=False)
DEBUG = False  # never True: the traceback page shows settings and local variables to the client

# --- Secrets: no defaults, see gateway_project.checks ------------------------------------------------------------

SECRET_KEY = environment.text("GATEWAY_SECRET_KEY")
SECRET_KEY_FALLBACKS = environment.words("GATEWAY_SECRET_KEY_FALLBACKS")  # they verify what was signed, and sign nothing
KEY_PEPPERS = environment.words("GATEWAY_KEY_PEPPERS")  # the first digests new keys, all verify
ENCRYPTION_KEYS = environment.words("GATEWAY_ENCRYPTION_KEYS")  # Fernet keys: the first encrypts, all decrypt

# --- Addresses ---------------------------------------------------------------------------------------------------

GATEWAY_BEHIND_PROXY = environment.boolean("GATEWAY_BEHIND_PROXY", default=False)
_trusted_proxies = environment.integer("GATEWAY_TRUSTED_PROXIES", None, minimum=0, maximum=10)
TRUSTED_PROXIES = int(GATEWAY_BEHIND_PROXY) if _trusted_proxies is None else _trusted_proxies

GATEWAY_API_HOST = environment.text("GATEWAY_API_HOST").lower()
GATEWAY_BASE_HOST = environment.text("GATEWAY_BASE_HOST").lower()
LOCAL_HOSTS = ["localhost", "127.0.0.1", "[::1]"] if GATEWAY_DEVELOPMENT else []  # also links in mails may have these
_own_hosts = [GATEWAY_API_HOST.partition(":")[0], GATEWAY_BASE_HOST.partition(":")[0]]
ALLOWED_HOSTS = [*environment.words("GATEWAY_ALLOWED_HOSTS"), *filter(None, _own_hosts), *LOCAL_HOSTS]
CSRF_TRUSTED_ORIGINS = environment.words("GATEWAY_CSRF_TRUSTED_ORIGINS")

# Who may read /metrics: see gateway_project.web.health. deploy/gunicorn.conf.py listens on the address of the metrics, too.
METRICS_ADDRESS = environment.address("GATEWAY_METRICS_BIND")
WORKER_METRICS_ADDRESS = environment.address("GATEWAY_WORKER_METRICS_BIND")
METRICS_SECRET = environment.text("GATEWAY_METRICS_SECRET")
_HAS_PORT = not environment.text("GATEWAY_BIND").startswith("unix:")
_PORT = environment.integer("PORT", 8_000, minimum=1, maximum=65_535)
WEB_PORT = _PORT if _HAS_PORT else None

# Whether what libraries do for every request is replaced: gateway_project.speedups.libraries reads the same variable.
SPEEDUPS = environment.boolean("GATEWAY_SPEEDUPS", default=True)

# Traces of completions: see completions.tracing. The SDK reads more variables that begin with OTEL_ by itself.
TRACING_ENDPOINT = environment.text("OTEL_EXPORTER_OTLP_ENDPOINT")
TRACING_SERVICE_NAME = environment.text("OTEL_SERVICE_NAME") or "model-gateway"
TRACING_PASS_ON = environment.boolean("GATEWAY_TRACING_PASS_ON", default=False)

# Pages of these origins may call the API from browsers; see gateway_project.web.cors.
GATEWAY_CORS_ORIGINS = environment.origins("GATEWAY_CORS_ORIGINS")
CORS_ALLOW_ALL_ORIGINS = GATEWAY_CORS_ORIGINS == ["*"]
CORS_ALLOWED_ORIGINS = [] if CORS_ALLOW_ALL_ORIGINS else GATEWAY_CORS_ORIGINS
CORS_URLS_REGEX = r"/*(v1|api)(/|$)"
CORS_ALLOW_METHODS = ("GET", "POST", "PATCH", "DELETE")
# Browsers read * as every header but Authorization. The names are for those that do not know it yet.
CORS_ALLOW_HEADERS = ("*", "authorization", "content-type", "idempotency-key")
CORS_EXPOSE_HEADERS = (
    "*",
    *("x-request-id", "request-id", "retry-after", "retry-after-ms", "x-should-retry"),
    *("idempotent-replayed", "idempotent-stored"),
    *(f"x-gateway-{fact}" for fact in ("provider", "attempts", "cost", "max-cost", "max-tokens", "ranking")),
    *(f"x-gateway-{fact}" for fact in ("failed-providers", "finish-reason", "ignored-fields", "own-key")),
    *(f"x-gateway-{fact}" for fact in ("run", "run-budget", "run-left", "run-deadline")),
    *(f"x-ratelimit-{fact}-{what}" for fact in ("limit", "remaining", "reset") for what in ("requests", "tokens")),
    *(f"x-ratelimit-{fact}-concurrent" for fact in ("limit", "remaining")),
    *(f"anthropic-ratelimit-{what}-{fact}" for fact in ("limit", "remaining", "reset") for what in ("requests", "tokens")),
)
CORS_PREFLIGHT_MAX_AGE = 7_200  # seconds; Chromium keeps none longer

# --- Apps, middleware and templates ------------------------------------------------------------------------------

INSTALLED_APPS = [
    "billing.desk.apps.SupportAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "corsheaders",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.github",
    "allauth.socialaccount.providers.google",
    "allauth.usersessions",
    "gateway_project.apps.GatewayConfig",
    "gateway_project.cells",
    "gateway_project.activity",
    "gateway_project.monitoring.apps.MonitoringConfig",
    "billing.apps.BillingConfig",
    "keys.apps.KeysConfig",
    "completions.apps.CompletionsConfig",
    "rankings.apps.RankingsConfig",
]

# The Page* classes add sessions, CSRF, messages and so on to pages. API requests skip all of them in one step.
MIDDLEWARE = [
    "gateway_project.web.request_log.RequestLogMiddleware",
    "gateway_project.web.security_headers.SecurityHeadersMiddleware",
    "gateway_project.web.cors.ApiCorsMiddleware",
    "gateway_project.web.hosts.AddressMiddleware",
    "gateway_project.web.in_flight.InFlightMiddleware",
    "gateway_project.web.hosts.ApiMiddleware",  # what follows is for pages
    "gateway_project.web.page_middleware.PageErrorMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gateway_project.web.page_middleware.PagePolicyMiddleware",
    "gateway_project.web.page_middleware.PageBodyMiddleware",
    "billing.sign_in.floods.PageSignInFloodMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "gateway_project.web.page_middleware.PageAddressInFlightMiddleware",
    "gateway_project.web.page_middleware.PageQueryMiddleware",
    "django.middleware.common.CommonMiddleware",
    "gateway_project.web.page_middleware.PageSessionMiddleware",
    "gateway_project.web.page_middleware.PageCsrfMiddleware",
    "billing.sign_in.sessions.PageIdleSessionMiddleware",
    "gateway_project.web.page_middleware.PageUserInFlightMiddleware",
    "billing.sign_in.second_factor.PageSecondFactorMiddleware",
    "billing.sign_in.kept_forms.PageKeptFormMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]

# The first looks for one of Django's classes by name, and does not recognize PageCsrfMiddleware. The second wants redirects to
# TLS, which are the proxy's. The last two want that all hosts of the domain have TLS, which only their owner can say.
SILENCED_SYSTEM_CHECKS = ["security.W003", "security.W008", "security.W005", "security.W021"]

ROOT_URLCONF = "gateway_project.urls.both"
WSGI_APPLICATION = "gateway_project.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [installation.TEMPLATES],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "gateway_project.mail.context",
                "billing.sign_in.identities.context",
            ],
            "builtins": ["gateway_project.templatetags.pauses"],
        },
    }
]

# --- PostgreSQL and Redis ----------------------------------------------------------------------------------------

DATABASE_POOL_SIZE = environment.integer("GATEWAY_DATABASE_POOL_SIZE", 8, minimum=0, maximum=200)
DATABASE_ROUTERS = ["gateway_project.cells.structure.CellRouter"]
DATABASES = {"default": pool.configuration(environment.text("DATABASE_URL"), pool_size=DATABASE_POOL_SIZE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = environment.text("REDIS_URL")

# --- Users and pages ---------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "billing.User"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "billing.sign_in.password_rules.LengthValidator"},
    {"NAME": "billing.sign_in.password_rules.ContextWordsValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.CommonPasswordValidator",
        "OPTIONS": {"password_list_path": BASE_DIR / "billing" / "sign_in" / "breached-passwords.txt.gz"},
    },
]
PASSWORD_HASHERS = ["gateway_project.passwords.OffloadedPBKDF2PasswordHasher"]
AUTHENTICATION_BACKENDS = ["billing.sign_in.backend.LimitedBackend"]
LOGIN_URL = "account_login"

# Whether people may sign up without an invitation; where there are domains, only those with an address in one of them.
SIGN_UP = environment.boolean("GATEWAY_SIGN_UP", default=GATEWAY_DEVELOPMENT)
SIGN_UP_DOMAINS = [domain.lower() for domain in environment.words("GATEWAY_SIGN_UP_DOMAINS")]
# Given once to each person who signs up: see billing.sign_in.addresses.
TRIAL_CREDIT_CENTS = environment.integer("GATEWAY_TRIAL_CREDIT_CENTS", 0, minimum=0, maximum=100_000)

LOGIN_REDIRECT_URL = "dashboard"
LOGOUT_REDIRECT_URL = "account_login"

# django-allauth. Its own limits are off: they count in the cache of one process. See billing.sign_in.limits.
ACCOUNT_ADAPTER = "billing.sign_in.adapter.SignInAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_FORMS = {"login": "billing.sign_in.forms.SignInForm"}
ACCOUNT_RATE_LIMITS = False
ACCOUNT_SESSION_REMEMBER = True  # until SESSION_COOKIE_AGE
MFA_ADAPTER = "billing.sign_in.adapter.SecondFactorAdapter"
MFA_FORMS = {
    "authenticate": "billing.sign_in.forms.CodeForm",
    "activate_totp": "billing.sign_in.forms.NewAppForm",
    "add_webauthn": "billing.sign_in.forms.NewPasskeyForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Model Gateway"
MFA_TOTP_TOLERANCE = 1  # steps of 30 seconds that a telephone's clock may be wrong
MFA_ALLOW_UNVERIFIED_EMAIL = True  # whoever could not verify an address cannot sign in
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = GATEWAY_DEVELOPMENT
MFA_RATE_LIMITS = False

# Sign-in with accounts at others: see billing.sign_in.identities.
SOCIALACCOUNT_ADAPTER = "billing.sign_in.identities.IdentityAdapter"
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # an equal address alone joins no sign-in to a user
SOCIALACCOUNT_LOGIN_ON_GET = False  # another site could sign someone in
SOCIALACCOUNT_STORE_TOKENS = False
IDENTITY_CLIENTS = {
    "google": (environment.text("GATEWAY_GOOGLE_CLIENT_ID"), environment.text("GATEWAY_GOOGLE_CLIENT_SECRET")),
    "github": (environment.text("GATEWAY_GITHUB_CLIENT_ID"), environment.text("GATEWAY_GITHUB_CLIENT_SECRET")),
}
_SCOPES = {"google": ["openid", "email"], "github": ["user:email"]}  # only who it is, and the address
SOCIALACCOUNT_PROVIDERS = {
    provider: {"APPS": [{"client_id": id, "secret": secret}], "SCOPE": _SCOPES[provider], "OAUTH_PKCE_ENABLED": True}
    for provider, (id, secret) in IDENTITY_CLIENTS.items()
    if id and secret
}

STAFF_NEED_SECOND_FACTOR = not GATEWAY_DEVELOPMENT

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not GATEWAY_DEVELOPMENT
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
# Browsers accept a cookie of such a name only from this host itself and over TLS, so no other host can set one for us.
_COOKIE_PREFIX = "__Host-" if SESSION_COOKIE_SECURE else ""
SESSION_COOKIE_NAME = f"{_COOKIE_PREFIX}sessionid"
CSRF_COOKIE_NAME = f"{_COOKIE_PREFIX}csrftoken"
DEVICE_COOKIE_NAME = f"{_COOKIE_PREFIX}device"  # see billing.sign_in.devices
SESSION_COOKIE_AGE = 7 * 86_400  # idle; those of staff end earlier: see billing.sign_in.sessions
SESSION_HOURS_MAX = environment.integer("GATEWAY_SESSION_HOURS_MAX", 336, minimum=1, maximum=8_760)  # however much it is used
STAFF_SESSION_HOURS_MAX = environment.integer("GATEWAY_STAFF_SESSION_HOURS_MAX", 24, minimum=1, maximum=8_760)
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"  # no cookie more
SECURE_HSTS_SECONDS = 0 if GATEWAY_DEVELOPMENT else 31_536_000
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if GATEWAY_BEHIND_PROXY else None
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "img-src": ["'self'", "data:"],
    }
}

# The limits on SUPPORT_CREDIT of one member of staff: each time, in a UTC day, and to one account in a day without approval.
SUPPORT_CREDIT_CENTS_MAX = environment.integer("GATEWAY_SUPPORT_CREDIT_CENTS_MAX", 25_000, minimum=1, maximum=100_000_000)
SUPPORT_CREDIT_DAY_CENTS_MAX = environment.integer(
    "GATEWAY_SUPPORT_CREDIT_DAY_CENTS_MAX", 100_000, minimum=1, maximum=100_000_000
)
SUPPORT_CREDIT_ALONE_CENTS_MAX = environment.integer(
    "GATEWAY_SUPPORT_CREDIT_ALONE_CENTS_MAX", 10_000, minimum=0, maximum=100_000_000
)

# --- Mail: see gateway_project.mail ------------------------------------------------------------------------------

EMAIL_HOST = environment.text("GATEWAY_SMTP_HOST")
EMAIL_PORT = environment.integer("GATEWAY_SMTP_PORT", 587, minimum=1, maximum=65_535)
EMAIL_HOST_USER = environment.text("GATEWAY_SMTP_USER")
EMAIL_HOST_PASSWORD = environment.text("GATEWAY_SMTP_PASSWORD")
EMAIL_USE_SSL = EMAIL_PORT == 465
EMAIL_USE_TLS = environment.boolean("GATEWAY_SMTP_TLS", default=True) and not EMAIL_USE_SSL
EMAIL_TIMEOUT = 10  # seconds
DEFAULT_FROM_EMAIL = environment.text("GATEWAY_MAIL_FROM") or "Model Gateway <gateway@localhost>"
MAIL_DIR = GATEWAY_VAR / "mail" if GATEWAY_DEVELOPMENT and not EMAIL_HOST else None  # instead of a mail server
SENDS_MAIL = bool(EMAIL_HOST or MAIL_DIR)
EMAIL_BACKEND = f"gateway_project.mail.{'SMTPBackend' if EMAIL_HOST else 'DirectoryBackend' if MAIL_DIR else 'NoBackend'}"
# Mails that strangers can cause, and mails about what happened, each have these limits: see billing.sign_in.mails.
MAILBOX_MAILS_PER_DAY = environment.integer("GATEWAY_MAILBOX_MAILS_PER_DAY", 20, minimum=2, maximum=10_000)
MAILS_PER_HOUR = environment.integer("GATEWAY_MAILS_PER_HOUR", 1_000, minimum=2, maximum=10_000_000)
SUPPORT_ADDRESS = environment.text("GATEWAY_SUPPORT_ADDRESS")  # shown wherever help is offered

# --- What public pages say of the operator: see gateway_project.templatetags.site ----------------------------------

TERMS_URL = environment.web_address("GATEWAY_TERMS_URL")
PRIVACY_URL = environment.web_address("GATEWAY_PRIVACY_URL")
STATUS_URL = environment.web_address("GATEWAY_STATUS_URL")  # instead of /status
# What is added to prices of providers, wherever the gateway reads these: see completions.catalog.markup.
MARKUP_PERCENT = environment.percent("GATEWAY_MARKUP_PERCENT", maximum=1_000)
# The share of the price that is charged where an account's own key serves.
OWN_KEY_FEE_BASIS_POINTS = int(100 * environment.percent("GATEWAY_OWN_KEY_FEE_PERCENT", maximum=100, default="5"))

USE_I18N = False
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = ["gateway_project.formats"]

STATIC_URL = "static/"
STATICFILES_DIRS = [installation.TEMPLATES / "static"]
WHITENOISE_USE_FINDERS = True  # served from where they are installed: the files are always those of the code
WHITENOISE_AUTOREFRESH = False

# --- The API -----------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    # Named by dotted path, so that billing's views authenticate by API key without an import of keys.
    "DEFAULT_AUTHENTICATION_CLASSES": ["keys.authentication.BearerKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["gateway_project.web.strict_json.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "gateway_project.web.error_replies.AlwaysJSON",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "keys.refusal_history.collector.handle_exception",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Model Gateway",
    "DESCRIPTION": "One API key and one prepaid balance for every language model.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # it knows no views that the description keeps, and fails
    "COMPONENT_SPLIT_PATCH": False,  # all fields of a change are optional anyway
    "DISABLE_DOCSTRING_DESCRIPTIONS": True,  # they are written for developers
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "ENUM_SUFFIX": "",
    "ENUM_NAME_OVERRIDES": {
        "ChatCompletionRole": "completions.request.messages.ROLES",
        "ImageDetail": "completions.request.messages.IMAGE_DETAILS",
        "AudioFormat": "completions.request.messages.AUDIO_FORMATS",
        "ReplyFormatType": "completions.request.schema.RESPONSE_FORMATS",
        "ProviderSort": "completions.request.schema.PROVIDER_SORTS",
        "ModelKind": "completions.models.ModelKind.values",
        "CompletionSettlement": "completions.models.Completion.Settlement",
        "EmbeddingEncodingFormat": "completions.inbound.embeddings.request.ENCODING_FORMATS",
        "ApiKeyState": "keys.key_api.key_object.STATES",
        "ThinkingDisplay": "completions.inbound.messages.serializers.DISPLAYS",
        "ReasoningSummary": "completions.inbound.responses.request.SUMMARIES",
        "ServiceTier": "completions.request.serving.TIERS",
        "ChargedTier": "completions.inbound.chat_completions.serializers.CHARGED_TIERS",
        "ReasoningEffort": "completions.request.schema.REASONING_EFFORTS",
        "Verbosity": "completions.request.schema.VERBOSITIES",
        "ModelCategory": "completions.models.Category.values",
        "RankingSource": "rankings.models.Source.values",
        "LedgerEntryType": "billing.models.LedgerEntry.Type",
        "SpendingType": "keys.spending_limit.SpendingType.values",
        "SpendingPeriod": "keys.spending_limit.SpendingPeriod.values",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "gateway_project.web.openapi.specification.describe",
        "keys.openapi.describe_rates",
        "completions.inbound.messages.serializers.describe_errors",
        "gateway_project.web.openapi.specification.add_addresses",
    ],
}

REQUEST_BYTES_MAX = environment.integer("GATEWAY_REQUEST_BYTES_MAX", 5_000_000, minimum=1_000, maximum=200_000_000)
REQUEST_BODY_TIMEOUT_SECONDS = environment.integer("GATEWAY_REQUEST_BODY_TIMEOUT", 30, minimum=1, maximum=600)
# Of the large request bodies that one web process has received and not answered.
BYTES_IN_FLIGHT_MAX = environment.integer("GATEWAY_BYTES_IN_FLIGHT_MAX", 200_000_000, minimum=1_000, maximum=100_000_000_000)
ACCOUNT_BYTES_IN_FLIGHT_MAX = environment.integer(
    "GATEWAY_ACCOUNT_BYTES_IN_FLIGHT_MAX", 50_000_000, minimum=1_000, maximum=100_000_000_000
)
REQUEST_SYNTAX_MAX = environment.integer("GATEWAY_REQUEST_SYNTAX_MAX", 100_000, minimum=1_000, maximum=20_000_000)
REQUEST_MESSAGES_MAX = environment.integer("GATEWAY_REQUEST_MESSAGES_MAX", 2_048, minimum=1, maximum=100_000)
REQUEST_IMAGES_MAX = environment.integer("GATEWAY_REQUEST_IMAGES_MAX", 50, minimum=0, maximum=1_000)
REQUEST_REMOTE_IMAGES = environment.boolean("GATEWAY_REQUEST_REMOTE_IMAGES", default=False)
FETCH_IMAGES = environment.boolean("GATEWAY_FETCH_IMAGES", default=True)
DATA_UPLOAD_MAX_MEMORY_SIZE = 2_500_000  # for forms of people who are signed in; the API reads bodies itself
# Pages that each web process has begun and not answered: see gateway_project.web.in_flight.
ADDRESS_PAGES_IN_FLIGHT = environment.integer("GATEWAY_ADDRESS_PAGES_IN_FLIGHT", 8, minimum=1, maximum=2_147_483_647)
USER_PAGES_IN_FLIGHT = environment.integer("GATEWAY_USER_PAGES_IN_FLIGHT", 4, minimum=1, maximum=2_147_483_647)
PAGE_QUERY_SECONDS = environment.integer("GATEWAY_PAGE_QUERY_SECONDS", 5, minimum=1, maximum=600)

# --- Payments: see billing.payments ------------------------------------------------------------------------------

STRIPE_SECRET_KEY = environment.text("GATEWAY_STRIPE_SECRET_KEY")
STRIPE_WEBHOOK_SECRET = environment.text("GATEWAY_STRIPE_WEBHOOK_SECRET")
STRIPE_API_BASE = environment.text("GATEWAY_STRIPE_API_BASE") or "https://api.stripe.com"
PAYMENT_PROCESSOR = environment.text("GATEWAY_PAYMENT_PROCESSOR") or (
    "stripe" if STRIPE_SECRET_KEY else "demo" if GATEWAY_DEVELOPMENT else ""
)
PAYMENT_CENTS_MIN = environment.integer("GATEWAY_PAYMENT_CENTS_MIN", 500, minimum=50, maximum=99_999_999)
PAYMENT_CENTS_MAX = environment.integer("GATEWAY_PAYMENT_CENTS_MAX", 100_000, minimum=50, maximum=99_999_999)
PAYMENT_PRESETS_CENTS = environment.integers(
    "GATEWAY_PAYMENT_PRESETS_CENTS", "1000, 2500, 5000, 10000", minimum=50, maximum=99_999_999
)
# On invoices: the tax that an amount includes. The credit of an account does not depend on it.
TAX_PERCENT = environment.percent("GATEWAY_TAX_PERCENT", maximum=100)
TAX_NAME = environment.text("GATEWAY_TAX_NAME", "VAT")
CLOSING_REFUNDS = environment.boolean("GATEWAY_CLOSING_REFUNDS", default=True)
SELLER_LINES = environment.words("GATEWAY_SELLER")  # on receipts: the name, the address and the tax id

# --- Keys --------------------------------------------------------------------------------------------------------

# Limits of keys that have none of their own, in accounts that have none either.
KEY_REQUESTS_PER_MINUTE = environment.integer("GATEWAY_KEY_REQUESTS_PER_MINUTE", None, minimum=1, maximum=2_147_483_647)
KEY_TOKENS_PER_MINUTE = environment.integer("GATEWAY_KEY_TOKENS_PER_MINUTE", None, minimum=1, maximum=2_147_483_647)
# Of each key, and of all keys of an account together, where they have no maximum of their own.
KEY_REQUESTS_IN_FLIGHT = environment.integer("GATEWAY_KEY_REQUESTS_IN_FLIGHT", 100, minimum=1, maximum=2_147_483_647)
ACCOUNT_REQUESTS_IN_FLIGHT = environment.integer("GATEWAY_ACCOUNT_REQUESTS_IN_FLIGHT", 400, minimum=1, maximum=2_147_483_647)
# Of each key in each web process, for everything but completions.
KEY_READS_PER_MINUTE = environment.integer("GATEWAY_KEY_READS_PER_MINUTE", 600, minimum=1, maximum=2_147_483_647)
ACCOUNT_READS_IN_FLIGHT = environment.integer("GATEWAY_ACCOUNT_READS_IN_FLIGHT", 4, minimum=1, maximum=2_147_483_647)

# --- What an account and a user may keep -------------------------------------------------------------------------

# Each is checked under the lock of the account, or of the user, by whatever adds one.
ACCOUNT_KEYS_MAX = environment.integer("GATEWAY_ACCOUNT_KEYS_MAX", 1_000, minimum=1, maximum=2_147_483_647)
ACCOUNT_KEYS_EVER_MAX = environment.integer("GATEWAY_ACCOUNT_KEYS_EVER_MAX", 10_000, minimum=1, maximum=2_147_483_647)
ACCOUNT_MANAGEMENT_KEYS_MAX = environment.integer("GATEWAY_ACCOUNT_MANAGEMENT_KEYS_MAX", 50, minimum=1, maximum=2_147_483_647)
ACCOUNT_KEY_REPLIES_MAX = environment.integer("GATEWAY_ACCOUNT_KEY_REPLIES_MAX", 1_000, minimum=0, maximum=2_147_483_647)
ACCOUNT_WEBHOOKS_MAX = environment.integer("GATEWAY_ACCOUNT_WEBHOOKS_MAX", 5, minimum=0, maximum=2_147_483_647)
ACCOUNT_PEOPLE_MAX = environment.integer("GATEWAY_ACCOUNT_PEOPLE_MAX", 100, minimum=1, maximum=2_147_483_647)
KEY_FORMER_SECRETS_MAX = environment.integer("GATEWAY_KEY_FORMER_SECRETS_MAX", 100, minimum=5, maximum=2_147_483_647)
USER_SESSIONS_MAX = environment.integer("GATEWAY_USER_SESSIONS_MAX", 30, minimum=1, maximum=2_147_483_647)
ACTS_PER_HOUR = environment.integer("GATEWAY_ACTS_PER_HOUR", 1_000, minimum=1, maximum=2_147_483_647)

# --- gunicorn: deploy/gunicorn.conf.py reads the same variables --------------------------------------------------

# Read here, too, so that no process starts beside a web process that cannot.
WEB_PROCESSES = environment.integer("WEB_CONCURRENCY", 2, minimum=1, maximum=1_000)
WORKER_CONNECTIONS = environment.integer("GATEWAY_WORKER_CONNECTIONS", 4_000, minimum=2, maximum=100_000)
KEEPALIVE_SECONDS = environment.integer("GATEWAY_KEEPALIVE_SECONDS", 75, minimum=1, maximum=3_600)
GRACEFUL_TIMEOUT_SECONDS = environment.integer("GATEWAY_GRACEFUL_TIMEOUT_SECONDS", 30, minimum=1, maximum=7_200)

# --- Completions -------------------------------------------------------------------------------------------------

IDEMPOTENT_REPLY_BYTES_MAX = environment.integer("GATEWAY_IDEMPOTENT_REPLY_BYTES_MAX", 1_000_000, minimum=0, maximum=50_000_000)
IDEMPOTENT_ACCOUNT_BYTES_MAX = environment.integer(
    "GATEWAY_IDEMPOTENT_ACCOUNT_BYTES_MAX", 500_000_000, minimum=0, maximum=1_000_000_000_000
)
STORED_RESPONSE_DAYS = environment.integer("GATEWAY_STORED_RESPONSE_DAYS", 30, minimum=0, maximum=3_650)
STORED_RESPONSE_BYTES_MAX = environment.integer("GATEWAY_STORED_RESPONSE_BYTES_MAX", 5_000_000, minimum=0, maximum=200_000_000)
STORED_RESPONSE_ACCOUNT_BYTES_MAX = environment.integer(
    "GATEWAY_STORED_RESPONSE_ACCOUNT_BYTES_MAX", 100_000_000, minimum=0, maximum=1_000_000_000_000
)
SETTLEMENT_JOURNAL_MINUTES = environment.integer("GATEWAY_SETTLEMENT_JOURNAL_MINUTES", 0, minimum=0, maximum=1_440)
OUTBOX_DIR = Path(environment.text("GATEWAY_OUTBOX_DIR") or GATEWAY_VAR / "outbox").resolve()
CATALOG_CACHE_SECONDS = environment.integer("GATEWAY_CATALOG_CACHE_SECONDS", 1, minimum=0, maximum=60)
# Whether a price that staff set in the admin waits for a second person. A catalog file sets prices without one.
PRICES_NEED_APPROVAL = environment.boolean("GATEWAY_PRICES_NEED_APPROVAL", default=True)
CATALOG_SYNC_PRICE_PERCENT = environment.integer("GATEWAY_CATALOG_SYNC_PRICE_PERCENT", 25, minimum=0, maximum=1_000)
# Networks that are not public, to which the gateway connects all the same: see gateway_project.net.addresses.
PRIVATE_UPSTREAMS = environment.networks("GATEWAY_PRIVATE_UPSTREAMS", "*" if GATEWAY_DEVELOPMENT else "")
# The same for webhooks, whose addresses owners choose.
PRIVATE_WEBHOOKS = environment.networks("GATEWAY_PRIVATE_WEBHOOKS", "*" if GATEWAY_DEVELOPMENT else "")
# The same for images, whose addresses callers choose.
PRIVATE_IMAGES = environment.networks("GATEWAY_PRIVATE_IMAGES", "*" if GATEWAY_DEVELOPMENT else "")
UPSTREAM_CONNECT_SECONDS = environment.integer("GATEWAY_UPSTREAM_CONNECT_SECONDS", 5, minimum=1, maximum=60)
UPSTREAM_FIRST_BYTE_SECONDS = environment.integer("GATEWAY_UPSTREAM_FIRST_BYTE_SECONDS", 120, minimum=1, maximum=3600)
UPSTREAM_IDLE_SECONDS = environment.integer("GATEWAY_UPSTREAM_IDLE_SECONDS", 120, minimum=1, maximum=3600)
UPSTREAM_WHOLE_SECONDS = environment.integer("GATEWAY_UPSTREAM_WHOLE_SECONDS", 120, minimum=1, maximum=7200)
UPSTREAM_TOTAL_SECONDS = environment.integer("GATEWAY_UPSTREAM_TOTAL_SECONDS", 900, minimum=1, maximum=7200)
UPSTREAM_CONNECTIONS_MAX = environment.integer("GATEWAY_UPSTREAM_CONNECTIONS_MAX", 2_000, minimum=1, maximum=100_000)
UPSTREAM_REPLY_BYTES_MAX = environment.integer(
    "GATEWAY_UPSTREAM_REPLY_BYTES_MAX", 50_000_000, minimum=1_000, maximum=1_000_000_000
)
UPSTREAM_EVENT_BYTES_MAX = environment.integer(
    "GATEWAY_UPSTREAM_EVENT_BYTES_MAX", 8_000_000, minimum=1_000, maximum=100_000_000
)
UPSTREAM_ATTEMPTS_MAX = environment.integer("GATEWAY_UPSTREAM_ATTEMPTS_MAX", 3, minimum=1, maximum=10)
CIRCUIT_FAILURES = environment.integer("GATEWAY_CIRCUIT_FAILURES", 5, minimum=1, maximum=1_000)
CIRCUIT_OPEN_SECONDS = environment.integer("GATEWAY_CIRCUIT_OPEN_SECONDS", 10, minimum=1, maximum=60)
CIRCUIT_ACCOUNTS = environment.integer("GATEWAY_CIRCUIT_ACCOUNTS", 3, minimum=2, maximum=1_000)
NEW_ACCOUNT_ROUTE_REQUESTS = environment.integer("GATEWAY_NEW_ACCOUNT_ROUTE_REQUESTS", 10, minimum=1, maximum=1_000_000)
ACCOUNT_UNPAID_CENTS_PER_HOUR = environment.integer(
    "GATEWAY_ACCOUNT_UNPAID_CENTS_PER_HOUR", 500, minimum=1, maximum=2_147_483_647
)
STREAM_HEARTBEAT_SECONDS = environment.integer("GATEWAY_STREAM_HEARTBEAT_SECONDS", 12, minimum=1, maximum=60)

# --- Rankings ----------------------------------------------------------------------------------------------------

# The variables of each source stand in its module of rankings.sources; those of the formula in rankings.scoring.parameters.
RANKINGS_FETCH = environment.boolean("GATEWAY_RANKINGS_FETCH", default=True)
RANKINGS_SPEED_WINDOW_HOURS = environment.integer("GATEWAY_RANKINGS_SPEED_WINDOW_HOURS", 72, minimum=1, maximum=720)
RANKINGS_SPEED_STREAMS_MIN = environment.integer("GATEWAY_RANKINGS_SPEED_STREAMS_MIN", 20, minimum=1, maximum=10_000)

# --- Background work ---------------------------------------------------------------------------------------------

AUDIT_REPEAT_DAYS = environment.integer("GATEWAY_AUDIT_REPEAT_DAYS", 30, minimum=0, maximum=3_650)

# Data that is deleted after a time: see completions.retention. The ledger never is.
RETENTION_DETAIL_DAYS = environment.integer("GATEWAY_RETENTION_DETAIL_DAYS", None, minimum=35, maximum=36_500)
RETENTION_USAGE_DAYS = environment.integer("GATEWAY_RETENTION_USAGE_DAYS", None, minimum=62, maximum=36_500)
RETENTION_REFUSAL_DAYS = environment.integer("GATEWAY_RETENTION_REFUSAL_DAYS", 30, minimum=1, maximum=3_650)
# At least what a trigger keeps of the activity log.
RETENTION_ACTIVITY_DAYS = environment.integer("GATEWAY_RETENTION_ACTIVITY_DAYS", None, minimum=366, maximum=36_500)
RETENTION_WARNING_DAYS = environment.integer("GATEWAY_RETENTION_WARNING_DAYS", 90, minimum=7, maximum=3_650)
EXPORT_DAYS = environment.integer("GATEWAY_EXPORT_DAYS", 7, minimum=1, maximum=90)
EXPORT_BYTES_MAX = environment.integer("GATEWAY_EXPORT_BYTES_MAX", 2_000_000_000, minimum=1_000, maximum=100_000_000_000)
ERASE_AFTER_DAYS = environment.integer("GATEWAY_ERASE_AFTER_DAYS", 30, minimum=1, maximum=3_650)
ARCHIVE_DIR = environment.text("GATEWAY_ARCHIVE_DIR")
BILLS_DIR = environment.text("GATEWAY_BILLS_DIR")

CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://") or "memory://"
CELERY_TASK_ALWAYS_EAGER = not REDIS_URL  # without Redis, beat runs the tasks itself
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_TIME_LIMIT = 3_600
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a worker serves its metrics meanwhile
# What beat sends, every so many seconds or at a time of day in UTC: see gateway_project.celery.
PERIODIC_TASKS: dict[str, dict[str, Any]] = {
    "release-expired-holds": {"task": "completions.tasks.release_expired_holds", "schedule": 60.0},
    "sum-up-hours": {"task": "completions.tasks.sum_up_hours", "schedule": 60.0, "options": {"expires": 60}},
    "sum-up-usage": {"task": "completions.tasks.sum_up_usage", "schedule": 60.0, "options": {"expires": 60}},
    "forget-idempotent-requests": {"task": "completions.tasks.forget_idempotent_requests", "schedule": 3_600.0},
    "forget-stored-responses": {"task": "completions.tasks.forget_stored_responses", "schedule": 3_600.0},
    "sign-ledger": {"task": "billing.tasks.sign_ledger", "schedule": 300.0, "options": {"expires": 300}},  # each hour
    "correct-open-holds": {"task": "billing.tasks.correct_open_holds", "schedule": 3_600.0},
    "forget-sign-in-attempts": {"task": "billing.tasks.forget_sign_in_attempts", "schedule": 3_600.0},
    "forget-old-refusals": {"task": "keys.tasks.forget_old_refusals", "schedule": 3_600.0},
    # At fixed times, in UTC: an interval of 86,400 seconds restarts when beat's schedule file is lost, and may never elapse.
    "verify-ledger": {"task": "billing.tasks.verify_ledger", "schedule": time(3, 0)},
    "archive-details": {"task": "completions.tasks.archive_details", "schedule": time(5, 0)},
    "forget-old-acts": {"task": "billing.tasks.forget_old_acts", "schedule": time(4, 45)},
    "drop-old-usage": {"task": "completions.tasks.drop_old_usage", "schedule": time(4, 30)},
    "top-up-accounts": {"task": "billing.tasks.top_up_accounts", "schedule": 60.0, "options": {"expires": 60}},
    "send-webhooks": {"task": "billing.tasks.send_webhooks", "schedule": 10.0, "options": {"expires": 10}},
    "note-entries": {"task": "billing.tasks.note_entries", "schedule": 10.0, "options": {"expires": 10}},
    "mail-warnings": {"task": "billing.tasks.mail_warnings", "schedule": 10.0, "options": {"expires": 10}},
    "refund-closed-accounts": {"task": "billing.tasks.refund_closed_accounts", "schedule": 60.0, "options": {"expires": 60}},
    "make-exports": {"task": "billing.tasks.make_exports", "schedule": 30.0, "options": {"expires": 30}},
    "forget-exports": {"task": "billing.tasks.forget_exports", "schedule": 3_600.0},
    "erase-closed-accounts": {"task": "billing.tasks.erase_closed_accounts", "schedule": 3_600.0},
    "forget-old-warnings": {"task": "billing.tasks.forget_old_warnings", "schedule": 3_600.0},
    "tell-unusual-hours": {"task": "completions.tasks.tell_unusual_hours", "schedule": 120.0, "options": {"expires": 120}},
    "tell-changes": {"task": "completions.tasks.tell_changes", "schedule": 3_600.0},
    "reconcile-payments": {"task": "billing.tasks.reconcile_payments", "schedule": time(3, 30)},
    "sync-catalog": {"task": "completions.tasks.sync_catalog", "schedule": time(4, 0)},
    "import-bills": {"task": "completions.tasks.import_bills", "schedule": time(6, 0)},
    # Often, because the row of each source says when its next run is due.
    "refresh-rankings": {"task": "rankings.tasks.refresh_due_sources", "schedule": 60.0, "options": {"expires": 60}},
}

# --- Logs --------------------------------------------------------------------------------------------------------

LOGGING = logs.configuration(is_readable=GATEWAY_DEVELOPMENT)
