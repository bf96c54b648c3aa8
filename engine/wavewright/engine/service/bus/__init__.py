"""The way to and from the broker: messages are taken one at a time, and sent until the broker
confirms them.

The *bus* is all that the rest of the engine knows of RabbitMQ. `bus` opens it, `topology` says
which queues there are, `faults` what can go wrong. A connection that ends is replaced, and those
who wait for it notice nothing.
"""
