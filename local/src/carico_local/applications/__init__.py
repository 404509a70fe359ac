"""Three applications whose Pods exchange real requests, after those of Bracke et al. (section 5.3), and their users.

catalog     the services of each application: whom they call, and how much they compute
manifests   their Deployments and Services
program     what a Pod runs: `carico-workload app NAME`
roles       how a service, a message broker and a reader of messages answer
work        computation on an emulated core
network     requests and answers over TCP, with the delay of a network between nodes
frames      the format of a message
directory   which Pods a service has, where no DNS has it
users       clients that count every request and its time
"""
