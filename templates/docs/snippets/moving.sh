{% autoescape off %}export OPENAI_BASE_URL={{ api_url }}/v1
export OPENAI_API_KEY=$GATEWAY_API_KEY{% endautoescape %}
