{% autoescape off %}export ANTHROPIC_BASE_URL={{ api_url }}
export ANTHROPIC_API_KEY=mgw_live_...
export ANTHROPIC_MODEL={{ model_id }}
export ANTHROPIC_DEFAULT_HAIKU_MODEL={{ model_id }}
claude{% endautoescape %}
