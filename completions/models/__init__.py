"""The tables of completions: the catalog (providers, models, dated prices, routes) and the record. All are imported from here.

- ``catalog``     providers and their lists, language models and their other names, dated prices, and routes
- ``own_keys``    the keys of providers that accounts bring
- ``record``      the record of every completion, and the replies that are stored for later requests
- ``statistics``  what completions add up to by hour and day
- ``incidents``   what staff write on the status page
- ``bills``       what providers billed, and how it compares
"""

from completions.models.bills import Bill, BillComparison, BilledModel, BillLine
from completions.models.catalog import (
    CatalogProposal,
    Category,
    LanguageModel,
    LanguageModelQuerySet,
    ModelKind,
    Obstacle,
    Price,
    PriceQuerySet,
    PriceRequest,
    Provider,
    ProviderPrice,
    RoutableAlias,
    Route,
    TokenPrices,
    UpstreamList,
)
from completions.models.incidents import Incident, IncidentUpdate
from completions.models.own_keys import OwnKey
from completions.models.record import Completion, IdempotentRequest, StoredResponse
from completions.models.statistics import (
    CompletionHour,
    FirstTokenHour,
    LabelDay,
    LabelHour,
    LabelSums,
    ProviderDay,
    UptimeSums,
    UsageHour,
    UsageMark,
    UsageSums,
)
