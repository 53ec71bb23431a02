"""What completions add to the support page of an account: its monthly statements."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path

from billing import admin as billing_admin
from billing.models import Account
from completions.history import monthly_statement

# billing does not import completions, so completions extend its page here.
admin.site.unregister(Account)


@admin.register(Account)
class AccountAdmin(billing_admin.AccountAdmin):
    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.month_view)
        month = path("<path:object_id>/months/<int:year>/<int:month>/", view, name="billing_account_month")
        return [month, *super().get_urls()]

    def month_view(self, request: HttpRequest, object_id: str, year: int, month: int) -> HttpResponse:
        """Show the statement of a month with the figures that the account's members see."""
        account = self.object_for(request, object_id, "billing.view_ledgerentry")
        context = monthly_statement.read(account, year, month)
        title = f"Statement of {context['month']:%B %Y}"
        return self.show_action(request, "admin/billing/account/month.html", title, account, **context)
