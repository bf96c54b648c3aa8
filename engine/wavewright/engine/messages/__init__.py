"""What crosses the broker: deliveries as they come in, messages as they are understood and made.

`decoding` turns a delivery into what the job store receives, or refuses it; `encoding` makes what goes out; `requests`
and `reports` are the payloads field by field.
"""
