"""The admin's paths. All apps' admin pages are loaded with them."""

from django.contrib import admin

admin.autodiscover()
urlpatterns = admin.site.get_urls()
