"""The way to and from the broker: messages are taken one at a time, and sent until the broker confirms them.

The *bus* is all that the rest of the engine knows of RabbitMQ. `bus` opens it, `topology` says which queues there
are, `errors` what can go wrong. Connections are made anew whenever they end; nobody who waits is told of it.
"""
