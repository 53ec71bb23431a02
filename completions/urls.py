from django.urls import path

from completions.inbound.chat_completions import views
from completions.inbound.embeddings.views import EmbeddingsView
from completions.inbound.messages.views import CountTokensView, MessageQuoteView, MessagesView
from completions.inbound.model_lists.views import ModelListView, ModelView
from completions.inbound.openrouter.views import GenerationView, KeyView
from completions.inbound.responses.stored_views import CancelledResponseView, InputItemsView, StoredResponseView
from completions.inbound.responses.views import CompactionView, InputTokensView, ResponseQuoteView, ResponsesView
from completions.inbound.runs import RunView
from completions.inbound.usage_export import UsageExportView

urlpatterns = [
    path("chat/completions", views.ChatCompletionsView.as_view()),
    path("completions/<str:completion_id>", views.PastCompletionView.as_view()),
    path("embeddings", EmbeddingsView.as_view()),
    path("generation", GenerationView.as_view()),
    path("key", KeyView.as_view()),
    path("messages", MessagesView.as_view()),
    path("messages/count_tokens", CountTokensView.as_view()),
    path("messages/quote", MessageQuoteView.as_view()),
    path("models", ModelListView.as_view()),
    path("models/<path:model_id>", ModelView.as_view()),
    path("quote", views.ChatQuoteView.as_view()),
    path("responses", ResponsesView.as_view()),
    path("responses/compact", CompactionView.as_view()),
    path("responses/input_tokens", InputTokensView.as_view()),
    path("responses/quote", ResponseQuoteView.as_view()),
    path("responses/<str:response_id>", StoredResponseView.as_view()),
    path("responses/<str:response_id>/cancel", CancelledResponseView.as_view()),
    path("responses/<str:response_id>/input_items", InputItemsView.as_view()),
    path("runs/<str:run_id>", RunView.as_view()),
    path("usage", views.UsageView.as_view()),
    path("usage/export", UsageExportView.as_view()),
    path("<path:nothing>", views.UnknownPathView.as_view()),
]
