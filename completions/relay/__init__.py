"""Dispatches an admitted request to its upstream routes and relays the reply. Every exit settles or releases the hold.

May import the layers of ``completions`` below it and ``gateway_project.net``. It holds no database connection while it waits
for an upstream.

The flow:

0. ``slots``              The view takes one before anything else: a process relays no more completions than it has slots, in
                          all and for each key. ``fair_queue`` then shares its time between keys.
1. ``attempts``           A ``Dispatch`` tries the routes in order, and some again, until one answers. Each attempt asks
                          ``circuit_breaker`` whether the route may be used, and reports how it ended; ``provider_keys`` notes
                          which providers refuse our key, ``local_faults`` which this host cannot connect to.
                          ``new_accounts`` bounds what an account that never paid may ask of a route at a time.
                          Before, ``image_fetches`` fetches the images that a request gives by address.
2. ``whole``, ``stream``  The view calls ``whole.relay``, or makes a ``ReplyStream``, which starts the dispatch. Each waits for
                          the upstream and resolves the hold once, whatever happens.
3. ``charge``             Decides what the reply is charged, and calls ``charging.settlement``.
4. ``reply_format``       Writes the bytes that the client gets: the whole JSON object, or the events.
"""
