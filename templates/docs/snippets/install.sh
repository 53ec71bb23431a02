{% autoescape off %}pip install openai anthropic            # Python
npm install openai @anthropic-ai/sdk    # TypeScript{% endautoescape %}
