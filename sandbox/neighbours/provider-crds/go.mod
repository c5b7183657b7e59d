// Verifies the modules with CRDs of Cluster API and its providers; see src/neighbours/provider_crds.rs.
module capstan.dev/sandbox/provider-crds

go 1.26.0
