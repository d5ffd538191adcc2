package postgres

// Statements whose plans tests look at.
const (
	PageSettings = pageSettings
	ReadPage     = readPage
)
