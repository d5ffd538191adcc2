module github.com/oncebox/oncebox/examples

go 1.26.0
