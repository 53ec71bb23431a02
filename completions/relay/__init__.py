"""Sends an admitted request to its routes and relays the reply. Every exit settles or releases the hold.

May import the layers of ``completions`` below it and ``gateway_project.net``. It holds no database connection while it waits
for a provider.

The flow:

0. ``slots``              The view takes one before anything else: a process relays no more completions than it has slots, in
                          all and for each key. ``fair_queue`` then shares its time between keys.
1. ``attempts``           Attempts the routes in order, and some again, until one answers. ``running`` holds what is known of
                          them. Before, ``image_fetches`` fetches the images that a request gives by address. For each route:

                              new_accounts.turn           bounds what an account that never paid may ask of it at a time
                              route_health.may_be_asked   local faults, then circuit_breaker, then refused keys
                              the adapter                 sends the request, and returns the reply or its first chunks
                              route_health.record_...     who is told: this host's network, the circuit, or our key

                          A route with an account's own key is no matter of these: ``own_keys`` says what failed.
                          After a failure that a retry may help, the route goes to the end of the queue, once.
2. ``whole``, ``stream``  The view calls ``whole.relay``, or makes a ``ReplyStream``, which starts the attempts. Each waits for
                          the provider and resolves the hold once, whatever happens.
3. ``charge``             Decides what the reply is charged, and commits that in a batch, or stores it in the outbox.
4. ``reply_format``       Writes the bytes that the client gets: the whole JSON object, or the events.
"""
