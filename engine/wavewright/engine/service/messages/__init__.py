"""Messages of the broker: deliveries, payloads, decoding and encoding.

`decoding` turns a delivery into what the job store receives, or refuses it; `encoding` builds
outgoing messages; `models` holds the neutral payloads, and `contract` finds the ones of the pack
that the settings name.
"""
