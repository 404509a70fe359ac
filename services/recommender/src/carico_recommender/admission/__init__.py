"""Requests for new Pods: a mutating webhook for namespaces with the label carico.dev/learnt-requests=true.

It never refuses a Pod, and the API server continues without an answer (failurePolicy Ignore).

- `review`         an AdmissionReview and its answer; pure
- `webhook`        the HTTPS server
- `certificates`   the server's certificate, read again when it changes, and checked as the API server will
- `registration`   keeps the certificate authority in the MutatingWebhookConfiguration
"""
